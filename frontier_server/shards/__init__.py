"""The ways from a front to its shards. Router and coordinator share them, and nothing else."""
