"""A URI's way through the frontier, in this order:

`intake` and `admission` decide about a candidate. `enqueue` puts it into its queue; `future` keeps it until
it is due. `dispatch` finds a queue whose `turn` it is, and `grants` leases its first URI. `reports` reads
what a node says, `settlement` ends the lease, and `conclusion` notes the URI's end. `withdrawal` takes URIs
and leases back.
"""
