"""A Model Context Protocol server for the memory; only this package imports the SDK of the protocol."""

from engram.errors import MissingExtra

try:
    import mcp  # noqa: F401 - fails here, with a hint what to install
except ImportError as error:
    raise MissingExtra(
        f"the Model Context Protocol is not installed ({error.name}); pip install 'engram-learning[mcp]'"
    ) from error
