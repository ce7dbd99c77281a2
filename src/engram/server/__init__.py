"""The servers: the REST API, gRPC, MCP and the dashboard.

`rest`, `grpc`, `mcp` and `dashboard` have one server each. They share `binding` (which address may be served without
TLS), `metrics` (Prometheus) and `malloc` (return free memory to the operating system).
"""
