"""Where a server listens, and how that is made safe: the same for every door."""

from __future__ import annotations

from dataclasses import dataclass

from engram.errors import ConfigError
from engram.system import is_loopback

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Place:
    """An address, and who speaks TLS there."""

    host: str = HOST
    port: int = 0
    certfile: str | None = None
    keyfile: str | None = None
    behind_proxy: bool = False
    """Whether somebody else ends TLS before anything comes here."""

    def refuse_unsafe(self) -> None:
        """Raises `ConfigError` if others could listen to what is said there."""
        if (self.certfile is None) != (self.keyfile is None):
            raise ConfigError("TLS needs both a certificate and its key; give --certfile and --keyfile")
        if self.certfile is None and not is_loopback(self.host) and not self.behind_proxy:
            raise ConfigError(
                f"others could listen on {self.host}; give --certfile and --keyfile, "
                "or --insecure-behind-proxy if a proxy speaks TLS for this server"
            )
