"""Bounds of a gRPC server that anybody can reach, and the services that are open to all."""
