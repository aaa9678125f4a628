"""Version 1 of the frontier's contract: messages in `*_pb2`, services in `*_pb2_grpc`, all generated."""
