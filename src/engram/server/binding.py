"""The address of a server and the rule, shared by all servers, that it must be local or use TLS."""

from __future__ import annotations

from dataclasses import dataclass

from engram.errors import ConfigError
from engram.system import is_loopback

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Place:
    """An address to listen on, and its certificate."""

    host: str = HOST
    port: int = 0
    certfile: str | None = None
    keyfile: str | None = None
    behind_proxy: bool = False
    """True if a proxy in front of the server terminates TLS."""

    def refuse_unsafe(self) -> None:
        """Raise `ConfigError` if traffic could be intercepted: the address is neither local nor protected by TLS."""
        if (self.certfile is None) != (self.keyfile is None):
            raise ConfigError("TLS needs both a certificate and its key; give --certfile and --keyfile")
        if self.certfile is None and not is_loopback(self.host) and not self.behind_proxy:
            raise ConfigError(
                f"others could listen on {self.host}; give --certfile and --keyfile, "
                "or --insecure-behind-proxy if a proxy speaks TLS for this server"
            )
