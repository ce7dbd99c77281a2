"""The gRPC server, and the protocol that it shares with its clients."""

from engram.errors import MissingExtra

try:
    import google.protobuf.message  # noqa: F401 - both are in the extra
    import grpc  # noqa: F401
except ImportError as error:
    raise MissingExtra(f"gRPC is not installed ({error.name}); pip install 'engram-learning[grpc]'") from error
