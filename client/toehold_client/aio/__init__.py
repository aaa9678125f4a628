"""The same for asyncio: each module is the one of its name in `toehold_client`."""
