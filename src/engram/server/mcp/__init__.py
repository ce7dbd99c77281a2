"""The MCP server: the memory as tools, resources and prompts of the Model Context Protocol."""

from engram.errors import MissingExtra

try:
    import mcp  # noqa: F401 - to say what to install before anything else fails
except ImportError as error:
    raise MissingExtra(
        f"the Model Context Protocol is not installed ({error.name}); pip install 'engram-learning[mcp]'"
    ) from error
