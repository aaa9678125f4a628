"""A gRPC server with the bounds of this program."""

from collections.abc import Sequence

import grpc

from toehold_base.serving.connections import address_count, connection_options

from ..config import Config
from ..service import MAX_CALLS, MAX_RECEIVED_BYTES
from ..stores.descriptors import connections

MAX_PENDING, MAX_PENDING_S = MAX_CALLS // 2, 120
MAX_SENT_BYTES = 32 * 1024 * 1024
MAX_CALLS_OF_CONNECTION = 640  # a client keeps further calls until others have ended


def bare_server(config: Config, interceptors: Sequence[grpc.aio.ServerInterceptor] = ()) -> grpc.aio.Server:
    """A server without services and addresses."""
    most_calls = MAX_CALLS if config.is_inner else MAX_CALLS_OF_CONNECTION  # the front has one connection
    return grpc.aio.server(
        interceptors=interceptors,
        options=[
            ("grpc.so_reuseport", 0),  # so that a taken port is an error
            *connection_options(connections(address_count(config.listen)), most_calls),
            ("grpc.max_receive_message_length", MAX_RECEIVED_BYTES),
            ("grpc.max_send_message_length", MAX_SENT_BYTES),
            # Beyond these, gRPC would silently cancel calls that wait to be taken up.
            ("grpc.server.max_pending_requests", MAX_PENDING),
            ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING),
            ("grpc.server_max_unrequested_time_in_server", MAX_PENDING_S),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ],
    )
