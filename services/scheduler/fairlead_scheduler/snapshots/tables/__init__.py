"""The tables of a pool that jobs refer to: classes, queues, shapes, and nodes with their types."""
