"""The warning comes at the action: a call or a block is checked before it runs, and how it went is recorded.

The memory never breaks what it guards: what it cannot do is logged, and the action goes on without it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import re
import reprlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypedDict, TypeVar, cast

from engram.errors import ActionBlocked, EngramError, InvalidInput
from engram.model import FailurePattern, Receipt, Solution, Verdict
from engram.ports.agent import Checks

LONGEST_VALUE = 80
MOST_VALUES = 12
MOST_REMEDIES = 3
_READ = 2000
"""What is read of a long value: all of it that can be shown, and enough besides to see the whole of a secret in it."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_log = logging.getLogger("engram")

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])
Said = str | Callable[..., str]
"""A text, or what makes one from the arguments of a call."""
OnWarn = Callable[[Verdict], object]
Clock = Callable[[], float]


class Around(TypedDict, total=False):
    """What is known about a situation besides its words."""

    environment: str
    tool: str
    task_type: str
    tags: str | Iterable[str]


class Options(Around, total=False):
    """How a function is guarded: its context and action, and who hears a warning."""

    context: Said
    action: Said
    on_warn: OnWarn | None


def asked(call: Callable[[], T], otherwise: T) -> T:
    """What the memory answers, or `otherwise` if it cannot; the reason is logged."""
    try:
        return call()
    except EngramError as error:
        _log.warning("going on without the memory: %s", error)
        return otherwise


def recorded(call: Callable[[], Receipt]) -> str | None:
    """The id of what was recorded, or `None` if it was not; the reason is logged."""
    receipt = asked(call, None)
    if receipt is not None and receipt.id is None:
        _log.warning("the outcome was not recorded: %s", receipt.reason)
    return None if receipt is None else receipt.id


def warned(verdict: Verdict, on_warn: OnWarn | None) -> None:
    """Pass a warning on to whoever listens, or to the log; anything else is not passed on."""
    if verdict.decision == "warn":
        if on_warn is not None:
            on_warn(verdict)
        else:
            _log.warning("%s: %s; %s", verdict.action, verdict.reason, _instead(verdict))


def blocked(verdict: Verdict) -> ActionBlocked:
    """The error that says why an action was not taken, and what worked instead."""
    advice = "do one of these, or" if verdict.instead else "if it must be done,"
    what = f"{verdict.action!r} was not done: {verdict.reason}; {_instead(verdict)}"
    return ActionBlocked(f"{what}; {advice} do it without the guard", verdict)


def unknown(action: str, context: str) -> Verdict:
    """What stands for a verdict when the memory cannot be asked."""
    reason = "the memory could not be asked"
    return Verdict(decision="allow", action=action, context=context, confidence=0.0, reason=reason)


def helpful(pattern: FailurePattern | None) -> tuple[Solution, ...]:
    """What is known to solve a failure, the best first; what never helped is none of it."""
    return () if pattern is None else tuple(one for one in pattern.known_solutions if one.helped > 0)


def lasting(around: Around) -> Around:
    """The same, with tags that can be read more than once."""
    tags = around.get("tags", ())
    return {**around, "tags": tags if isinstance(tags, str) else tuple(tags)}


def teaches(error: BaseException) -> bool:
    """Whether an error says something about the action: not if it was interrupted, or stopped before it was tried."""
    return isinstance(error, Exception) and not isinstance(error, ActionBlocked)


class Guarding:
    """A block that is checked before it runs and recorded after, for `with` and `async with`; gives the verdict."""

    def __init__(
        self,
        agent: Checks,
        action: str,
        context: str,
        around: Around,
        on_warn: OnWarn | None = None,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._agent = agent
        self._action, self._context, self._around = action, context, lasting(around)
        self._on_warn, self._clock = _listener(on_warn), clock
        self._verdict = unknown(action, context)
        self._started = 0.0

    def __enter__(self) -> Verdict:
        return self._begin(self._check())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        duration = self._clock() - self._started
        if error is None or teaches(error):
            self._record(error, duration)

    async def __aenter__(self) -> Verdict:
        return self._begin(await asyncio.to_thread(self._check))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        duration = self._clock() - self._started
        if error is None or teaches(error):
            await asyncio.to_thread(self._record, error, duration)

    def _check(self) -> Verdict:
        action, context = self._action, self._context
        return asked(
            lambda: self._agent.check(action=action, context=context, **self._around), unknown(action, context)
        )

    def _begin(self, verdict: Verdict) -> Verdict:
        if verdict.decision == "block":
            raise blocked(verdict)
        warned(verdict, self._on_warn)
        self._verdict, self._started = verdict, self._clock()
        return verdict

    def _record(self, error: BaseException | None, duration: float) -> None:
        recorded(
            lambda: self._agent.record_decision(
                context=self._context,
                action=self._action,
                outcome="success" if error is None else "failure",
                error=error or "",
                duration=duration,
                informed_by=[self._verdict.id] if self._verdict.id else [],
                **self._around,
            )
        )


def guard(
    agent: Checks,
    redact: Callable[[str], str],
    *,
    context: Said = "",
    action: Said = "",
    environment: str = "",
    tool: str = "",
    task_type: str = "",
    tags: str | Iterable[str] = (),
    on_warn: OnWarn | None = None,
    clock: Clock = time.perf_counter,
) -> Callable[[Function], Function]:
    """A decorator that checks every call of a function before it runs, and records how it went.

    `redact` sees long values before they are cut, so that no half of a secret is left. Raises `InvalidInput` for what
    does not run when it is called, such as a generator.
    """
    around = lasting(Around(environment=environment, tool=tool, task_type=task_type, tags=tags))
    listener = _listener(on_warn)

    def decorate(function: Function) -> Function:
        if not callable(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidInput("only functions and coroutine functions can be guarded; use guarding() around the rest")
        named = _Named(function, redact)

        def guarding(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Guarding:
            what = _said(action, args, kwargs) or named.action(args, kwargs)
            where = _said(context, args, kwargs) or named.context
            return Guarding(agent, what, where, around, listener, clock)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with guarding(args, kwargs):
                return function(*args, **kwargs)

        @functools.wraps(function)
        async def acall(*args: Any, **kwargs: Any) -> Any:
            async with guarding(args, kwargs):
                return await function(*args, **kwargs)

        return cast(Function, acall if is_async(function) else call)

    return decorate


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await: a coroutine function, or an object that is called like one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def name_of(function: Callable[..., Any]) -> str:
    """What a function is called; an object that is called like one has the name of its class."""
    whole = _whole(function)
    return str(getattr(whole, "__name__", type(whole).__name__))


def summary_of(function: Callable[..., Any]) -> str:
    """The first line of a function's documentation; empty if it has none."""
    documented = inspect.getdoc(_whole(function)) or ""
    return documented.strip().partition("\n")[0].strip()


class _Named:
    """The texts that stand for the calls of a function, the same for the same arguments however they are passed."""

    def __init__(self, function: Callable[..., Any], redact: Callable[[str], str]) -> None:
        self._name = name_of(function)
        self._signature = _signature(function)
        self._values = _Values(redact)
        place = str(getattr(_whole(function), "__qualname__", self._name)).replace(".<locals>", "")
        self.context = summary_of(function) or place

    def action(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Such as `deploy(target='staging')`; a method is named without its object."""
        shown = [
            f"{name}={self._values.repr(value)}" if name else self._values.repr(value)
            for name, value in self._arguments(args, kwargs)
        ]
        rest = ["…"] if len(shown) > MOST_VALUES else []
        return f"{self._name}({', '.join(shown[:MOST_VALUES] + rest)})"

    def _arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """The arguments of a call with the names of their parameters; values of `*args` have none."""
        if self._signature is None:
            return [*(("", value) for value in args), *kwargs.items()]
        try:
            bound = self._signature.bind(*args, **kwargs).arguments
        except TypeError:  # the call is wrong, and says so itself
            return [*(("", value) for value in args), *kwargs.items()]
        found = list[tuple[str, Any]]()
        for place, (name, value) in enumerate(bound.items()):
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                found += [("", one) for one in value]
            elif kind is inspect.Parameter.VAR_KEYWORD:
                found += value.items()
            elif place > 0 or name not in {"self", "cls"}:
                found.append((name, value))
        return found


class _Values(reprlib.Repr):
    """Values as text: short, without addresses, which differ every time, and without halves of secrets."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def repr_str(self, value: str, level: int) -> str:
        return repr(self._cut(value))

    def repr_instance(self, value: Any, level: int) -> str:
        try:
            shown = repr(value)
        except Exception:  # noqa: BLE001 - a stranger's repr may raise anything, and the call must have a name
            return f"<{type(value).__name__}>"
        return self._cut(_ADDRESS.sub("", shown))

    def _cut(self, text: str) -> str:
        return text if len(text) <= LONGEST_VALUE else self._redact(text[:_READ])[:LONGEST_VALUE] + "…"


def _whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that a partial one is a part of."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):  # some built-in functions have none
        return None


def _said(text: Said, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return text if isinstance(text, str) else text(*args, **kwargs)


def _listener(on_warn: OnWarn | None) -> OnWarn | None:
    if on_warn is not None and (not callable(on_warn) or is_async(on_warn)):
        raise InvalidInput("on_warn must be a plain function that takes the verdict")
    return on_warn


def _instead(verdict: Verdict) -> str:
    """What worked instead, in words."""
    told = [f"{one.text} ({one.success_rate:.0%} of {one.attempts})" for one in verdict.instead[:MOST_REMEDIES]]
    return f"what worked instead: {', '.join(told)}" if told else "nothing is known to work instead"
