"""A shard: how memory is made from the store, and how each operation begins and ends."""
