"""A pool of daemon threads for steps, and calls with a timeout."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple


class CallResult(NamedTuple):
    """Result of a call."""

    name: str
    value: Any = None
    error: BaseException | None = None


class WorkerPool:
    """Runs calls in threads; the caller takes the results one by one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._busy = set[str]()
        self._answers: queue.SimpleQueue[CallResult] = queue.SimpleQueue()

    @property
    def busy(self) -> frozenset[str]:
        """The names of the calls that are running."""
        return frozenset(self._busy)

    @property
    def free(self) -> bool:
        """True if another call can be started."""
        return len(self._busy) < self._size

    def call(self, name: str, call: Callable[[], Any]) -> None:
        """Start a call; in a pool of one, it runs at once in this thread."""
        self._busy.add(name)
        if self._size == 1:
            self._answers.put(CallResult(name, call()))
        else:
            _start_thread(name, call, self._answers)

    def next(self) -> CallResult:
        """Wait for the next result."""
        answer = self._answers.get()
        self._busy.discard(answer.name)
        return answer


def call_with_timeout(seconds: float, call: Callable[[], Any]) -> CallResult | None:
    """Run a call in a thread; returns `None` after a timeout, and the call keeps running unobserved."""
    answers: queue.SimpleQueue[CallResult] = queue.SimpleQueue()
    _start_thread("", call, answers)
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        return None


def _start_thread(name: str, call: Callable[[], Any], answers: queue.SimpleQueue[CallResult]) -> None:
    """Run a call in a daemon thread, which does not delay the exit of the program."""

    def work() -> None:
        try:
            answers.put(CallResult(name, call()))
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is taken
            answers.put(CallResult(name, error=error))

    threading.Thread(target=work, name=f"engram step {name}".strip(), daemon=True).start()
