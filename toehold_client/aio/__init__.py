"""The client for asyncio. Its methods are those of the blocking one, awaited.

Streams (`state_events`, `stream_outcomes`, `export_uris`) are not awaited but iterated over. The event loop
reads seeds and imports as it sends them, so reading them must not block for long.

`tools/parts/blocking_client.py` makes the blocking client from `client`, `controller`, `node_client` and
`operators`.
"""
