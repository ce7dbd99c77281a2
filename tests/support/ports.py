"""Ports of this machine, for the tests of servers and of those who call them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def nobody_listens() -> Iterator[int]:
    """A port where nobody answers meanwhile: it is taken, and not listened to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def free_ports(count: int = 1) -> list[int]:
    """So many different ports that nobody has."""
    with ExitStack() as taken:
        return [taken.enter_context(nobody_listens()) for _ in range(count)]
