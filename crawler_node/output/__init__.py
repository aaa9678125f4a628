"""What is kept of a visit, and where."""
