"""What is stored, and how: rows, their keys, the interface of a store, and the errors of the core."""
