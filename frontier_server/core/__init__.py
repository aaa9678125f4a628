"""The frontier's rules: plain Python over ordered bytes.

What this package is
--------------------
A machine that answers questions: which URIs may be fetched now, what becomes of a report, why does nothing
happen. It knows no RPC, database, clock, thread, random number or log. `now_ms` comes in as an argument; an
operation returns `(answer, changes)`, and whoever drives the core (`runner`) makes the changes durable before
the answer may leave. So each rule can be tried with a dict for a store and a number for a clock, any moment
can be cut off by a power loss in a test, and the whole package compiles (mypyc).

The journey of a URI
--------------------
1.  *Schedule* brings candidates (`intake`). `uri` makes each one canonical, the scope judges it, and
    `admission` looks it up in the seen-set by its identity. Most are known already, and end here.
2.  A new one gets a cost and a precedence, and is put into its work queue (`enqueue`), at the end of its
    level: directive first, then precedence, then age. A URI whose time has not come waits in `future`.
3.  *Next* asks for leases. `dispatch` gives queues their turns, one after the other; `queue` tells how they
    wait for them. At a turn the rules of `turn` look for the first obstacle: the host is busy or rests,
    a budget is spent, robots.txt must be fetched first, or forbids. Without one, `grants` leases the head.
4.  `ledger` counts the lease for its queue, host, groups and crawl, and `leases` holds it until the node
    reports, falls silent (it lapses), or hands it back.
5.  *Finished* brings the report (`reports`). `rules.disposition` says what its status means: final, or once
    more later. `settlement` lets the host rest, and the queue go on.
6.  `conclusion` takes the URI out of its queue for good: seen-set, statistics, outcome for `crawl.log`,
    and the time of its next visit, if it has one.

Beside the journey: `spec`, what is asked for; `machines` and `life`, a crawl's states; `jobs`, work in
slices, for what would take too long at once; `operators`, what people ask and change; `opening` and
`rebuild`, memory from rows. Below all: `crawl` and `operation` over `records`, `keys` and `store`.

What always holds
-----------------
*   A URI of the seen-set is in one place: in one queue (out at a node or not), among the future ones, or
    done. Its row says where; `jobs.verification` compares all rows with each other.
*   A queue is in one state, and in the one list, index or set of that state. `queue.TABLE` has all moves, and
    `Operation.move` is the only one who makes them.
*   A host gets no more requests at once than it may, and none while it rests, whatever the number of queues,
    crawls and nodes. Requests in flight are counted from leases, so a restart cannot forget one.
*   A report counts once. Its token names its lease; a second one gets the first one's answer again.
*   Counts change with the rows that they count, in the same write. What is counted twice is recounted by
    `verify`, and by the property tests after each step. `invariants` looks at the end of each operation
    at what it changed, and raises before anything wrong is stored.
*   The keys of URIs, queues, hosts and leases have their partition. What one decision needs together has one
    partition, so that a part of a store can be moved or served by itself.

What may never be assumed
-------------------------
*   That memory is complete. Of queues it has the active ones, of seen URIs and hosts a cache. Ask for them
    through `Operation` and `Hosts`; what they read is there until the operation ends.
*   That an operation can be taken back. It may fail with a `FrontierError` only before it has changed
    anything. A defect later ends the server, which then reads memory anew from the last durable write.
*   That time passes evenly. Laptops sleep, and servers are stopped for a week: then much is due at once, and
    comes a share at a time. Only this much is certain: `now_ms` never decreases, not even over a restart.
*   That callers are right. Nodes repeat, reorder and lose requests; they report what they please. Every
    field is checked where it comes in, and a wrong one changes nothing.
*   That a loop is short. A crawl may have a million queues and a queue ten million URIs. A loop over either
    has a bound, and goes on in the next call or in a job.
"""
