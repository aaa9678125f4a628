"""The coordinator: leads one crawl that is in many shards.

What it is
----------
A crawl over N shards is N crawls, one in each, and a *whole*: its spec, life, limits, seeds, events and jobs.
The parts are ordinary crawls that are *led* (`core.state.crawl.Crawl.led`): they neither end by themselves
nor announce seeds. The whole is a crawl as the core knows it, but without queues (`whole`): the core's rules
of a crawl's life ask it what is left and what is in flight, and it answers from what the parts have said.

Orders and progress
-------------------
The coordinator tells a part all that it should be, in one *order*, and the part tells all that it is, its
*progress*. Neither says what has changed. So what is lost is made good by the next, what comes twice changes
nothing, and what is late is known by its number: orders by their serial, which is above those of all earlier
coordinators (`begin_term`), progress by the shard's count of changes.

Limits
------
Documents and toes are lent (`pool`). What all parts may have together never exceeds the limit, at any moment
and whatever becomes of messages: a share counts from the order that raises it until the part has said that it
has less. Bytes and time are summed up, and may be exceeded by what is fetched within a second.

The end
-------
A crawl has ended when nothing is left in any part at one moment, and nothing is on its way between two. Parts
are asked twice, the second time when all have answered the first. A part that was at rest both times, with
the same count of offers and leases, was so in between; if all were, then all at the moment between the
rounds. Nodes offer the links of a page before they report it, so nothing was on its way then.

Links to a part whose shard is away are kept until it is back (`parking`), and the crawl does not end before.

What decides is pure, as the core is: `coordinator`, `whole`, `pool`, `jobs`, `parking`. Its tasks (`leader`,
`errands`) carry messages to and from shards. `tests/core_doubles/parted.py` plays both with messages that go
astray.
"""
