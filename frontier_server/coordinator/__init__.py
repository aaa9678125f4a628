"""The coordinator: leads one crawl that is in many shards.

What it is
----------
A crawl over N shards has N *parts*, one in each shard, and a *whole*, which the coordinator has. The whole is
a crawl of the core without queues (`whole`): it has the spec, the life, the limits, the seeds, the events and
the jobs. The core's rules of a crawl's life ask it what is left and what is in flight, and it answers from
what the parts have said. Each part is an ordinary crawl that is *led* (`core.state.crawl.Crawl.led`): it does
not end by itself, and leaves the announcement of seeds to the coordinator.

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
A crawl has ended if at one moment no part has anything left, and nothing is on its way from one part to
another. To find such a moment, the coordinator asks all parts twice, and begins the second round when all
have answered the first. A part that was at rest in both rounds, with the same count of offers and leases, was
at rest all the time between its two answers. If that holds for each part, all were at rest at the moment
between the rounds. Nothing was on its way then, as nodes offer the links of a page before they report it.

Links to a part whose shard is away are kept until it is back (`parking`), and the crawl does not end before.

The modules that decide are pure, as the core is: `coordinator`, `whole`, `pool`, `jobs` and `parking`. Two
more, `leader` and `errands`, have the tasks that carry messages to and from shards.
`tests/core_doubles/parted.py` plays both with messages that go astray.
"""
