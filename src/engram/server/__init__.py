"""The servers: the REST API, gRPC, MCP and the dashboard."""
