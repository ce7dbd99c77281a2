"""Shut a server over stdio down cleanly on SIGTERM or SIGINT."""

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
    """End standard input at the first signal, as if the client had closed it; a second signal has its usual effect.

    A thread that blocks on standard input cannot be woken, so another thread copies the input to a pipe until the
    signal.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        own = os.dup(0)
    except OSError:  # there is no standard input
        yield
        return
    piped_input, feed = os.pipe()
    stopped, stop_request = os.pipe()
    os.set_blocking(feed, False)
    os.dup2(piped_input, 0)
    os.close(piped_input)
    handlers: dict[int, Any] = {sign: signal.getsignal(sign) or signal.SIG_DFL for sign in SIGNALS}
    before = {sign: handler for sign, handler in handlers.items() if handler is not signal.SIG_IGN}

    def stop(sign: int, frame: FrameType | None) -> None:
        signal.signal(sign, before[sign])
        os.write(stop_request, b"\n")

    for each in before:
        signal.signal(each, stop)
    copier = threading.Thread(target=_copy_input, args=(own, feed, stopped), name="engram-stdin")
    copier.start()
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        os.close(stop_request)
        copier.join()
        os.dup2(own, 0)
        os.close(own)
        os.close(stopped)


def _copy_input(own: int, feed: int, stopped: int) -> None:
    """Copy `own` to `feed` until it ends or `stopped` becomes readable."""
    try:
        while not select.select([own, stopped], [], [])[0].count(stopped) and (data := os.read(own, PART)):
            while data:
                if select.select([stopped], [feed], [])[0]:
                    return
                data = data[os.write(feed, data) :]
    except OSError:
        return
    finally:
        os.close(feed)
