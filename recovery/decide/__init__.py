"""What would be done, decided from bytes alone; nothing here reaches a module that changes files."""
