"""Stop a server over stdio gracefully on a signal."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)
PART = 1 << 16


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within it, the first signal ends standard input, as if the client had closed it; the second is as without this.

    A thread that waits for standard input cannot be woken, so another one passes on what comes, until it is told.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        own = os.dup(0)
    except OSError:  # there is no standard input
        yield
        return
    passed, feed = os.pipe()
    heard, told = os.pipe()
    os.set_blocking(feed, False)
    os.dup2(passed, 0)
    os.close(passed)
    handlers: dict[int, Any] = {sign: signal.getsignal(sign) or signal.SIG_DFL for sign in SIGNALS}
    before = {sign: handler for sign, handler in handlers.items() if handler is not signal.SIG_IGN}

    def stop(sign: int, frame: FrameType | None) -> None:
        signal.signal(sign, before[sign])
        os.write(told, b"\n")

    for each in before:
        signal.signal(each, stop)
    passing = threading.Thread(target=_pass_on, args=(own, feed, heard), name="engram-stdin")
    passing.start()
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        os.close(told)
        passing.join()
        os.dup2(own, 0)
        os.close(own)
        os.close(heard)


def _pass_on(own: int, feed: int, heard: int) -> None:
    """Pass on what comes, until it ends or something is heard."""
    try:
        while not select.select([own, heard], [], [])[0].count(heard) and (data := os.read(own, PART)):
            while data:
                if select.select([heard], [feed], [])[0]:
                    return
                data = data[os.write(feed, data) :]
    except OSError:
        return
    finally:
        os.close(feed)
