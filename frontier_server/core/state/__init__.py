"""What memory knows between two operations: crawls, queues, hosts, leases and nodes.

It is derived from the rows. `Operation` is the only way to change a row.
"""
