"""The input of the folds: messages, batches of one kind of event, and what filters match."""
