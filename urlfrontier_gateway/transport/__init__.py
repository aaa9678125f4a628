"""gRPC for servers of many small messages: HTTP/2 by the library h2, and what gRPC adds to it.

`grpc.aio` takes some 45 µs for each message of a stream, as each one wakes the event loop by itself. Here
messages that arrive together are read together, and all that is ready in a turn of the loop goes out in one
write.
"""

from .call import Aborted, Call
from .server import Serve, Server, only_message

__all__ = ["Aborted", "Call", "Serve", "Server", "only_message"]
