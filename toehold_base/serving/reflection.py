"""gRPC's reflection service in both its versions, v1 and v1alpha, for any server of the contract.

grpcio has only v1alpha, and older tools ask for it. On the wire the two differ only in the service's name.
"""

from collections.abc import Iterable
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, text_format
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha import reflection, reflection_pb2

V1_SERVICE = "grpc.reflection.v1.ServerReflection"
SERVICES = (V1_SERVICE, reflection.SERVICE_NAME)


def add_reflection(server: Any, services: Iterable[str], *, asynchronous: bool) -> None:
    """Let a server, blocking or asynchronous, show these services, by full name, and reflection itself."""
    make: Any = reflection.aio.ReflectionServicer if asynchronous else reflection.ReflectionServicer
    answer = make((*services, *SERVICES), pool=_Symbols()).ServerReflectionInfo
    handler = grpc.stream_stream_rpc_method_handler(
        answer,
        reflection_pb2.ServerReflectionRequest.FromString,
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    for service in SERVICES:
        server.add_registered_method_handlers(service, {"ServerReflectionInfo": handler})


class _Symbols:
    """Protobuf's pool of descriptors, which also finds methods and the file of reflection v1."""

    def __init__(self) -> None:
        self._pool = descriptor_pool.Default()
        self._v1 = DescriptorPool()
        self._v1.AddSerializedFile(_v1_file())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def FindFileByName(self, name: str) -> FileDescriptor:
        """A file. Raises KeyError, as the pool does."""
        try:
            return self._pool.FindFileByName(name)
        except KeyError:
            return self._v1.FindFileByName(name)

    def FindFileContainingSymbol(self, name: str) -> FileDescriptor:
        """The file with a symbol. Raises KeyError, as the pool does."""
        for pool in (self._pool, self._v1):
            try:
                return pool.FindFileContainingSymbol(name)
            except KeyError:
                service, _, method = name.rpartition(".")
                if _has_method(pool, service, method):
                    return pool.FindServiceByName(service).file
        raise KeyError(name)


def _has_method(pool: DescriptorPool, service: str, method: str) -> bool:
    try:
        return method in pool.FindServiceByName(service).methods_by_name
    except KeyError:
        return False


def _v1_file() -> bytes:
    """The .proto file of v1, made of v1alpha's."""
    file = descriptor_pb2.FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(file)
    text = text_format.MessageToString(file).replace("v1alpha", "v1")
    return text_format.Parse(text, descriptor_pb2.FileDescriptorProto()).SerializeToString()
