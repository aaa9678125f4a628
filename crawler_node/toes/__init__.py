"""The toe threads, and what each does to a lease."""
