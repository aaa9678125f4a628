"""What everybody needs who takes leases: crawler nodes, spiders, the gateway.

Each of these workers keeps its leases in a book of its own. The rules of the contract for calls that fail and
for heartbeats are here, once:

    meaning     what an error means: try again, give up, or stop for good
    rests       how long to rest before the next try
    contact     whether the frontier answers, and what the log says of it
    orders      what a heartbeat's answer asks for
    addresses   which addresses a crawl may be fetched from
    threads     calls again and again, in threads
    tasks       the same in asyncio

`meaning`, `rests`, `orders` and `addresses` are pure: they neither call nor wait.
"""
