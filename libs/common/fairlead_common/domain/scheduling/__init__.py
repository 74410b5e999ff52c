"""What decides where jobs can run: amounts of resources, shapes, taints, priority classes."""
