"""The contract of crawler nodes, by version."""
