"""The methods of the clients: generated from operations, with the names and arguments of the library.

The arguments become a request model, which a client sends over HTTP or gRPC; its response becomes the value that the
library returns.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, Signature
from itertools import chain
from operator import attrgetter
from typing import Any, Generic, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError

from engram import errors
from engram.api.operations import OPERATIONS, AuditEntries, Operation
from engram.api.paging import MOST, USUAL
from engram.api.requests import ExportQuery
from engram.errors import EngramError, InvalidInput, NotFound
from engram.model import Draft, Hit, Recall, Receipt, describe_error
from engram.model.wire import ContextText, NewMemories, NewMemory, Noted, Page, Recalled, Receipts

R = TypeVar("R")
M = TypeVar("M", bound=BaseModel)
Item = str | Draft | Mapping[str, Any]
"""A memory to store: its text, a draft, or the fields of a draft."""

ERRORS: dict[str, type[EngramError]] = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, EngramError)
}
"""Every error class, by its code."""

NAMES = {
    "get_memory": "get",
    "list_memories": "list",
    "list_audit": "audit",
    "get_quarantined": "quarantined_memory",
    "tell_solution": "tried",
    "generate_checks": "generate",
}
"""Client methods whose names are not those of their operations without `list_`, `get_` or `tell_`."""
POSITIONAL = {
    "recall": ("query", "k"),
    "context": ("query", "k"),
    "record_decision": (),
    "check": ("action", "context"),
    "learn_from_failure": ("error", "solution"),
    "tried": ("pattern", "solution", "helped"),
    "generate": ("pattern", "stage"),
    "diff": ("workspace", "before", "after"),
    "runs": ("workflow",),
    "grants": ("state",),
    "page": ("cursor",),
}
"""Arguments that may be positional; for other methods, the required ones."""
RENAMED = {"tried": {"pattern": "name"}}
"""Arguments whose names differ between the library and the request."""
DEFAULTS: dict[str, dict[str, Any]] = {
    "list": {"limit": USUAL},
    "page": {"limit": USUAL},
    "audit": {"newest": True, "limit": USUAL},
}
"""Arguments whose defaults differ from those of the request; the `limit` of all other lists is the highest one."""
OPTIONAL = {"get", "failure", "agent", "cycle"}
"""Methods that return `None` for an object that is not found, as in the library."""
RESULTS: dict[Any, Callable[[Any], Any]] = {
    AuditEntries: lambda found: [*found.items],
    ContextText: attrgetter("text"),
    Noted: attrgetter("news"),
    Recalled: lambda found: Recall(found.id, found.hits),
    Receipts: lambda found: [*found.receipts],
}
"""Functions that convert responses to the values of the library; other responses are returned unchanged."""


@dataclass(frozen=True, slots=True)
class Request(Generic[R]):
    """A request of an operation, with a function that converts its response."""

    operation: Operation
    message: BaseModel
    result: Callable[[Any], R]
    optional: bool = False

    def failed(self, error: EngramError) -> R:
        """Return the receipt of a refused draft, or `None` for an object that is not found. Raises all other errors."""
        receipt: Any = getattr(error, "receipt", None)
        if receipt is not None and self.operation.response is Receipt:
            return cast("R", receipt)
        if self.optional and isinstance(error, NotFound):
            return cast("R", None)
        raise error


@dataclass(frozen=True)
class Method:
    """A method of the clients, made from an operation."""

    name: str
    operation: Operation

    @cached_property
    def arguments(self) -> dict[str, str]:
        """Return the arguments in order, positional ones first, with the fields of the request that they fill."""
        renamed = {new: old for old, new in RENAMED.get(self.name, {}).items()}
        fields = {renamed.get(name, name): name for name in self._fields}
        return {
            name: fields[name] for name in (*self.positional, *(each for each in fields if each not in self.positional))
        }

    @cached_property
    def positional(self) -> tuple[str, ...]:
        """Return the arguments that may be positional."""
        if self.name in POSITIONAL:
            return POSITIONAL[self.name]
        first = [name for name in self._fields if name in self.operation.path_fields]
        others = [name for name in self._fields if name not in first and self.field(name).is_required()]
        return (*first, *others)

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """Return the default arguments that differ from those of the request."""
        listing = "limit" in self.operation.request.model_fields
        return ({"limit": MOST} if listing else {}) | DEFAULTS.get(self.name, {})

    @property
    def optional(self) -> bool:
        """True if it returns `None` for an object that is not found."""
        return self.name in OPTIONAL

    @property
    def paged(self) -> bool:
        """True if it returns a page with its cursor, instead of the items."""
        return self.name == "page"

    def field(self, name: str) -> Any:
        """Return the field of the request, or of its nested model, that an argument fills."""
        return self._models[name].model_fields[name]

    @cached_property
    def _fields(self) -> list[str]:
        return [name for name in self._models if name != "cursor" or self.paged]

    @cached_property
    def _models(self) -> dict[str, type[BaseModel]]:
        """Return the model of each field; those of a nested body count as fields of the request."""
        own, nested = self.operation.request, self.operation.body_field
        models: dict[str, type[BaseModel]] = {}
        for name, info in own.model_fields.items():
            inner: Any = info.annotation
            models |= dict.fromkeys(inner.model_fields, inner) if name == nested else {name: own}
        return models

    @property
    def signature(self) -> Signature:
        """Return the parameters, with the defaults of the request."""
        parameters = [Parameter("self", Parameter.POSITIONAL_ONLY)]
        for name, filled in self.arguments.items():
            kind = Parameter.POSITIONAL_OR_KEYWORD if name in self.positional else Parameter.KEYWORD_ONLY
            info = self.field(filled)
            default = Parameter.empty if info.is_required() else info.get_default(call_default_factory=True)
            parameters.append(Parameter(name, kind, default=self.defaults.get(name, default)))
        return Signature(parameters)

    def request(self, *given: Any, **named: Any) -> Request[Any]:
        """Build the request from the arguments. Raises `InvalidInput`, and `TypeError` for too many of them."""
        if len(given) > len(self.positional):
            raise TypeError(
                f"{self.name}() takes {len(self.positional)} arguments by position, and {len(given)} were given"
            )
        by_position = dict(zip(self.positional, given, strict=False))
        if twice := by_position.keys() & named.keys():
            raise TypeError(f"{self.name}() got several values for {', '.join(sorted(twice))}")
        values = {self.arguments.get(name, name): value for name, value in {**by_position, **named}.items()}
        fields = {
            **self.defaults,
            **{name: self._value(name, value) for name, value in values.items() if value is not None},
        }
        if (nested := self.operation.body_field) is not None:
            inner = {
                name: fields.pop(name) for name in [*fields] if self._models.get(name) is not self.operation.request
            }
            fields[nested] = build(self.operation.request.model_fields[nested].annotation, inner)  # type: ignore[arg-type]
        return Request(self.operation, build(self.operation.request, fields), self._result, self.optional)

    def _value(self, name: str, value: Any) -> Any:
        """Convert an argument for the request: hits to their ids, an exception to its text, one text to a tuple."""
        if name in self._models and _takes_several(self.field(name).annotation):
            return several(value)
        return error_text(value) if isinstance(value, BaseException) else value

    @cached_property
    def _result(self) -> Callable[[Any], Any]:
        response = self.operation.response
        if issubclass(response, Page) and not self.paged:
            return lambda found: [*found.items]
        return RESULTS.get(response, lambda found: found)


def _takes_several(annotation: Any) -> bool:
    return get_origin(annotation) is tuple or any(map(_takes_several, get_args(annotation)))


def _methods() -> Iterator[Method]:
    for name, operation in OPERATIONS.items():
        if name not in {"remember", "remember_batch"}:
            yield Method(NAMES.get(name) or re.sub(r"^(list|get|tell)_", "", name), operation)
    yield Method("page", OPERATIONS["list_memories"])


METHODS = {method.name: method for method in _methods()}
"""The methods of every client, by name, except `remember`, which each client defines."""


def remember(item: Item, fields: Mapping[str, Any]) -> Request[Receipt]:
    """Build the request to store one memory."""
    return Request(OPERATIONS["remember"], draft(item, fields), lambda receipt: receipt)


def remember_batch(items: Sequence[Item], fields: Mapping[str, Any]) -> Request[list[Receipt]]:
    """Build the request to store several memories in one transaction; the response has one receipt each, in order."""
    if not isinstance(items, Sequence):
        raise InvalidInput(f"text, drafts or a list of them can be remembered, not {type(items).__name__}")
    drafts = build(NewMemories, {"items": [draft(item, fields) for item in items]})
    return Request(OPERATIONS["remember_batch"], drafts, RESULTS[Receipts])


def draft(item: Item, fields: Mapping[str, Any]) -> NewMemory:
    """Build a draft from one item and the fields for all items; their tags are joined. Raises `InvalidInput`."""
    own = item.model_dump(exclude_unset=True) if isinstance(item, Draft) else item
    if not isinstance(own, str | Mapping):
        raise InvalidInput(f"only text and drafts can be remembered, not {type(item).__name__}")
    given: dict[str, Any] = {"text": own} if isinstance(own, str) else dict(own)
    tags = [several(each["tags"]) for each in (given, fields) if "tags" in each]
    values = {**given, **fields, **({"tags": tuple(chain.from_iterable(tags))} if tags else {})}
    return build(NewMemory, {name: value for name, value in values.items() if value is not None})


def export_query(domains: Any, tags: Any, form: Any) -> ExportQuery:
    """Build the request for a knowledge file."""
    return build(ExportQuery, {"domains": several(domains), "tags": several(tags), "form": form})


def build(model: type[M], fields: Mapping[str, Any]) -> M:
    """Build and validate a request. Raises `InvalidInput`."""
    try:
        return model(**fields)
    except ValidationError as error:
        raise InvalidInput(describe_error(error)) from None


def several(values: Any) -> Any:
    """Return one text as a tuple of one, several as a tuple; hits become their ids, other types stay as they are."""
    if isinstance(values, str | Hit):
        values = (values,)
    elif not isinstance(values, Iterable):
        return values
    return tuple(each.id if isinstance(each, Hit) else each for each in values)


def error_text(error: BaseException) -> str:
    """Return the text of an exception, with its traceback."""
    return "".join(traceback.format_exception(error))
