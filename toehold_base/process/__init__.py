"""A program as a process: its start, its environment, its extras, its service manager."""
