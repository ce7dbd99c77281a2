"""The memory as a server of the Model Context Protocol; only this package imports its SDK."""

from engram.errors import MissingExtra

try:
    import mcp  # noqa: F401 - to say what to install before anything else fails
except ImportError as error:
    raise MissingExtra(
        f"the Model Context Protocol is not installed ({error.name}); pip install 'engram-learning[mcp]'"
    ) from error
