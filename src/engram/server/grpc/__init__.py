"""Engram over gRPC: parse, one call of the engine, render."""

from engram.errors import MissingExtra

try:
    import google.protobuf.message  # noqa: F401 - what this package is made of
    import grpc  # noqa: F401
except ImportError as error:
    raise MissingExtra(f"gRPC is not installed ({error.name}); pip install 'engram-learning[grpc]'") from error
