"""Pure: the records of the view, the folds that make them, public events."""
