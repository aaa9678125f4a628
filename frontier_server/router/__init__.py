"""The router: makes the shards of a frontier look like one. It keeps nothing that must not be lost.

A call about one URI goes to the shard that has the URI's place; one about many is split, asked of all that
are concerned at once, and answered in the caller's order. A lease's token has the place of its URI in it, so
reports and heartbeats find their shards by themselves.

A shard that cannot be reached is *away*. The router refuses what needs it, names it, and goes on with others.
"""
