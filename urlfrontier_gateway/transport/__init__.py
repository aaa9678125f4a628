"""gRPC for servers of many small messages: HTTP/2 by the library h2, and what gRPC adds to it.

`grpc.aio` wakes the event loop for each message of a stream, which costs some 35 µs. Here messages that
arrive together are read together, and everything that is ready in a turn of the loop goes out in one write.
"""

from .call import Aborted, Call
from .server import Serve, Server, decoded, only_message

__all__ = ["Aborted", "Call", "Serve", "Server", "decoded", "only_message"]
