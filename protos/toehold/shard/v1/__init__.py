"""Version 1 of the contract of crawler nodes: messages in `*_pb2`, the service in `*_pb2_grpc`, generated."""
