"""Describe every operation of Engram once, for REST, gRPC and the clients."""
