"""The toe threads, and the stages that each takes a lease through."""
