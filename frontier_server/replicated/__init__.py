"""A log in replicated storage, so that a store survives the loss of its machine with its disk.

`log` has the promises, and `object_log` keeps them in an object store, through `buckets`. `records` is what
is written, the same in every kind of storage.
"""
