"""Makes calls for several who wait for them: in turn, or so many at a time, each in a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What became of the call that somebody asked for."""

    name: str
    value: Any = None
    error: BaseException | None = None


class Crew:
    """Answers come one by one to whoever asks for the next, in the thread that asks."""

    def __init__(self, hands: int) -> None:
        self._hands = hands
        self._busy = set[str]()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()

    @property
    def busy(self) -> frozenset[str]:
        """Who waits for an answer."""
        return frozenset(self._busy)

    @property
    def free(self) -> bool:
        """Whether another call can be made."""
        return len(self._busy) < self._hands

    def call(self, name: str, call: Callable[[], Any]) -> None:
        """Make a call for somebody who waits for no other; with one hand only, it is made here and now."""
        self._busy.add(name)
        if self._hands == 1:
            self._answers.put(Answer(name, call()))
        else:
            _begin(name, call, self._answers)

    def next(self) -> Answer:
        """Wait for the next answer."""
        answer = self._answers.get()
        self._busy.discard(answer.name)
        return answer


def within(seconds: float, call: Callable[[], Any]) -> Answer | None:
    """What a call gave within so many seconds; `None` if it has not ended, and goes on without being heard."""
    answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
    _begin("", call, answers)
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        return None


def _begin(name: str, call: Callable[[], Any], answers: queue.SimpleQueue[Answer]) -> None:
    """Make a call in a thread that nobody has to wait for at the end."""

    def work() -> None:
        try:
            answers.put(Answer(name, call()))
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is taken
            answers.put(Answer(name, error=error))

    threading.Thread(target=work, name=f"engram step {name}".strip(), daemon=True).start()
