"""A new store from what is left of a damaged one."""
