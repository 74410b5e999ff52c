"""Groups in the view: their rows, their fold, and how they were scaled."""
