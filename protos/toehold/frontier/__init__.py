"""The frontier's contract, by version."""
