"""Guarded calls: check an action before it runs, and record its outcome.

Failures of the memory are logged and never prevent the action.
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
from engram.ports.agent import ChecksActions

MAX_VALUE = 80
MAX_VALUES = 12
MAX_REMEDIES = 3
_READ_LENGTH = 2000
"""Number of characters of a long value that are redacted: more than is shown, so that secrets are complete."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_log = logging.getLogger("engram")

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])
TextOrFunction = str | Callable[..., str]
"""A text, or a function that makes one from the arguments of a call."""
OnWarn = Callable[[Verdict], object]
Clock = Callable[[], float]


class CircumstanceFields(TypedDict, total=False):
    """Circumstances of an action, as keyword arguments."""

    environment: str
    tool: str
    task_type: str
    tags: str | Iterable[str]


class GuardOptions(CircumstanceFields, total=False):
    """Options of a guarded function: context, action, and a listener for warnings."""

    context: TextOrFunction
    action: TextOrFunction
    on_warn: OnWarn | None


def try_memory(call: Callable[[], T], otherwise: T) -> T:
    """Call the memory; if it fails, log the error and return `otherwise`."""
    try:
        return call()
    except EngramError as error:
        _log.warning("going on without the memory: %s", error)
        return otherwise


def try_record(call: Callable[[], Receipt]) -> str | None:
    """Record something and return its id; if that fails, log the reason and return `None`."""
    receipt = try_memory(call, None)
    if receipt is not None and receipt.id is None:
        _log.warning("the outcome was not recorded: %s", receipt.reason)
    return None if receipt is None else receipt.id


def emit_warning(verdict: Verdict, on_warn: OnWarn | None) -> None:
    """Pass a warning to the listener or the log; other verdicts are ignored."""
    if verdict.decision == "warn":
        if on_warn is not None:
            on_warn(verdict)
        else:
            _log.warning("%s: %s; %s", verdict.action, verdict.reason, _alternatives_text(verdict))


def blocked_error(verdict: Verdict) -> ActionBlocked:
    """Make the error for a blocked action, with the alternatives that worked."""
    advice = "do one of these, or" if verdict.instead else "if it must be done,"
    what = f"{verdict.action!r} was not done: {verdict.reason}; {_alternatives_text(verdict)}"
    return ActionBlocked(f"{what}; {advice} do it without the guard", verdict)


def unknown_verdict(action: str, context: str) -> Verdict:
    """Make the verdict for when the memory cannot be asked."""
    reason = "the memory could not be asked"
    return Verdict(decision="allow", action=action, context=context, confidence=0.0, reason=reason)


def helpful_solutions(pattern: FailurePattern | None) -> tuple[Solution, ...]:
    """Return the solutions of a failure that have helped, best first."""
    return () if pattern is None else tuple(one for one in pattern.known_solutions if one.helped > 0)


def with_tag_tuple(around: CircumstanceFields) -> CircumstanceFields:
    """Return the circumstances with tags that can be iterated more than once."""
    tags = around.get("tags", ())
    return {**around, "tags": tags if isinstance(tags, str) else tuple(tags)}


def is_outcome(error: BaseException) -> bool:
    """Return true if an error is an outcome of the action, not an interruption or a block."""
    return isinstance(error, Exception) and not isinstance(error, ActionBlocked)


class GuardedBlock:
    """Context manager, sync or async, that checks an action before a block and records its outcome after."""

    def __init__(
        self,
        agent: ChecksActions,
        action: str,
        context: str,
        around: CircumstanceFields,
        on_warn: OnWarn | None = None,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._agent = agent
        self._action, self._context, self._around = action, context, with_tag_tuple(around)
        self._on_warn, self._clock = _check_listener(on_warn), clock
        self._verdict = unknown_verdict(action, context)
        self._started = 0.0

    def __enter__(self) -> Verdict:
        return self._begin(self._check())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        duration = self._clock() - self._started
        if error is None or is_outcome(error):
            self._record(error, duration)

    async def __aenter__(self) -> Verdict:
        return self._begin(await asyncio.to_thread(self._check))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        duration = self._clock() - self._started
        if error is None or is_outcome(error):
            await asyncio.to_thread(self._record, error, duration)

    def _check(self) -> Verdict:
        action, context = self._action, self._context
        return try_memory(
            lambda: self._agent.check(action=action, context=context, **self._around), unknown_verdict(action, context)
        )

    def _begin(self, verdict: Verdict) -> Verdict:
        if verdict.decision == "block":
            raise blocked_error(verdict)
        emit_warning(verdict, self._on_warn)
        self._verdict, self._started = verdict, self._clock()
        return verdict

    def _record(self, error: BaseException | None, duration: float) -> None:
        try_record(
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
    agent: ChecksActions,
    redact: Callable[[str], str],
    *,
    context: TextOrFunction = "",
    action: TextOrFunction = "",
    environment: str = "",
    tool: str = "",
    task_type: str = "",
    tags: str | Iterable[str] = (),
    on_warn: OnWarn | None = None,
    clock: Clock = time.perf_counter,
) -> Callable[[Function], Function]:
    """Make a decorator that checks every call of a function before it runs and records its outcome.

    `redact` is applied to long values before they are shortened, so that no part of a secret remains. Raises
    `InvalidInput` for generators, which do not run when they are called.
    """
    around = with_tag_tuple(CircumstanceFields(environment=environment, tool=tool, task_type=task_type, tags=tags))
    listener = _check_listener(on_warn)

    def decorate(function: Function) -> Function:
        if not callable(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidInput("only functions and coroutine functions can be guarded; use guarding() around the rest")
        named = _CallNames(function, redact)

        def guarding(args: Sequence[Any], kwargs: Mapping[str, Any]) -> GuardedBlock:
            what = _resolve_text(action, args, kwargs) or named.action(args, kwargs)
            where = _resolve_text(context, args, kwargs) or named.context
            return GuardedBlock(agent, what, where, around, listener, clock)

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
    """Return true if calling a function or object returns an awaitable."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class of a callable object."""
    whole = _unwrap_partial(function)
    return str(getattr(whole, "__name__", type(whole).__name__))


def summary_of(function: Callable[..., Any]) -> str:
    """Return the first line of a function's docstring; empty if it has none."""
    documented = inspect.getdoc(_unwrap_partial(function)) or ""
    return documented.strip().partition("\n")[0].strip()


class _CallNames:
    """Texts for the calls of a function; equal arguments give equal texts."""

    def __init__(self, function: Callable[..., Any], redact: Callable[[str], str]) -> None:
        self._name = name_of(function)
        self._signature = _signature(function)
        self._values = _ShortRepr(redact)
        place = str(getattr(_unwrap_partial(function), "__qualname__", self._name)).replace(".<locals>", "")
        self.context = summary_of(function) or place

    def action(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Describe a call, such as `deploy(target='staging')`, without `self`."""
        shown = [
            f"{name}={self._values.repr(value)}" if name else self._values.repr(value)
            for name, value in self._arguments(args, kwargs)
        ]
        rest = ["…"] if len(shown) > MAX_VALUES else []
        return f"{self._name}({', '.join(shown[:MAX_VALUES] + rest)})"

    def _arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the arguments with their parameter names; those of `*args` have none."""
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


class _ShortRepr(reprlib.Repr):
    """Short representations of values, without memory addresses and parts of secrets."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def repr_str(self, value: str, level: int) -> str:
        return repr(self._cut(value))

    def repr_instance(self, value: Any, level: int) -> str:
        try:
            shown = repr(value)
        except Exception:  # noqa: BLE001 - any repr may raise anything, and the call needs a name
            return f"<{type(value).__name__}>"
        return self._cut(_ADDRESS.sub("", shown))

    def _cut(self, text: str) -> str:
        return text if len(text) <= MAX_VALUE else self._redact(text[:_READ_LENGTH])[:MAX_VALUE] + "…"


def _unwrap_partial(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside `functools.partial` objects."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):  # some built-in functions have none
        return None


def _resolve_text(text: TextOrFunction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return text if isinstance(text, str) else text(*args, **kwargs)


def _check_listener(on_warn: OnWarn | None) -> OnWarn | None:
    if on_warn is not None and (not callable(on_warn) or is_async(on_warn)):
        raise InvalidInput("on_warn must be a plain function that takes the verdict")
    return on_warn


def _alternatives_text(verdict: Verdict) -> str:
    """List the alternatives that worked."""
    told = [f"{one.text} ({one.success_rate:.0%} of {one.attempts})" for one in verdict.instead[:MAX_REMEDIES]]
    return f"what worked instead: {', '.join(told)}" if told else "nothing is known to work instead"
