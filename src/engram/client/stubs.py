"""Write `methods.pyi`, the types of the methods that are made from the operations; `make stubs` runs this."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from inspect import Parameter
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

from pydantic import JsonValue

from engram.api.operations import AuditEntries
from engram.client.calls import METHODS, Method
from engram.model import AuditEntry, Draft, Hit, Recall, Receipt
from engram.model.wire import ContextText, CycleError, Noted, Page, Recalled

FILE = Path(__file__).with_name("methods.pyi")
HEAD = '''\
"""The methods of the clients. This file is written by `make stubs`; do not edit it."""

'''
LINE = 120
_RESULTS: dict[Any, str] = {
    AuditEntries: "builtins.list[AuditEntry]",
    ContextText: "str",
    Noted: "bool",
    Recalled: "Recall",
}


def text() -> str:
    """Return the text of the stub."""
    classes = [_class("Methods", "Sender", ""), _class("AsyncMethods", "AsyncSender", "async ")]
    body = "\n".join(classes) + "\ndef deprecated(old: str, new: str) -> Callable[..., Any]: ...\n"
    return HEAD + "\n".join(_imports(body)) + "\n\n" + body


def _class(name: str, base: str, prefix: str) -> str:
    one, many = "text: str | Draft | Mapping[str, Any]", "text: Sequence[str | Draft | Mapping[str, Any]]"
    lines = [f"class {name}({base}):\n"]
    for given, returned in ((one, "Receipt"), (many, "builtins.list[Receipt]")):
        lines += ["    @overload\n", _definition(prefix, "remember", ["self", given, "**fields: Any"], returned)]
    form = 'form: Literal["json", "jsonl"] = "json"'
    choice = ["domains: str | Iterable[str] = ()", "tags: str | Iterable[str] = ()", form]
    options = ["format: str | None = None", "dry_run: bool = False", "large: bool = False"]
    lines += [
        _definition(prefix, "export_knowledge", ["self", "*", *choice], "bytes"),
        _definition(prefix, "import_knowledge", ["self", "file: bytes | Path", "*", *options], "ImportReport"),
    ]
    return "".join([*lines, *(_method(each, prefix) for each in METHODS.values())])


def _method(method: Method, prefix: str) -> str:
    parameters = ["self"]
    for parameter in [*method.signature.parameters.values()][1:]:
        if parameter.kind is Parameter.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        hint = argument(method.field(method.arguments[parameter.name]).annotation, parameter.name)
        default = "" if parameter.default is Parameter.empty else f" = {_default(parameter.default)}"
        parameters.append(f"{parameter.name}: {hint}{default}")
    return _definition(prefix, method.name, parameters, result(method))


def _definition(prefix: str, name: str, parameters: list[str], returned: str) -> str:
    """Format a function on one line or, if that is too long, with a line for each parameter."""
    line = f"    {prefix}def {name}({', '.join(parameters)}) -> {returned}: ...\n"
    if len(line) <= LINE + 1:
        return line
    inner = f"        {', '.join(parameters)}\n"
    if len(inner) > LINE + 1 or "*" in parameters:
        inner = "".join(f"        {each},\n" for each in parameters)
    return f"    {prefix}def {name}(\n{inner}    ) -> {returned}: ...\n"


def result(method: Method) -> str:
    """Return the return type of a method."""
    response = method.operation.response
    own = _RESULTS.get(response) or response.__name__
    if issubclass(response, Page):
        (item,) = response.__pydantic_generic_metadata__["args"]
        own = f"Page[{item.__name__}]" if method.paged else f"builtins.list[{item.__name__}]"
    return f"{own} | None" if method.optional else own


def argument(annotation: Any, name: str = "") -> str:
    """Return the type of an argument, which is wider than that of its field."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return argument(args[0], name)
    if isinstance(annotation, NewType):
        return argument(annotation.__supertype__, name)
    if origin in {Union, UnionType}:
        return " | ".join(dict.fromkeys(part for each in args for part in argument(each, name).split(" | ")))
    if origin is tuple:
        return "str | Hit | Iterable[str | Hit]" if name == "used" else "str | Iterable[str]"
    if origin is Literal:
        return f"Literal[{', '.join(repr(word).replace(chr(39), chr(34)) for word in args)}]"
    if annotation is JsonValue:
        return "JsonValue"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "Mapping[str, JsonValue]"
    if annotation is CycleError:
        return "Mapping[str, JsonValue]"
    if annotation is datetime:
        return "datetime | str"
    if annotation is NoneType:
        return "None"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return "str"
    return "str | BaseException" if annotation is str and name == "error" else str(annotation.__name__)


def _default(value: Any) -> str:
    return "..." if isinstance(value, dict) else repr(value).replace("'", '"')


def _imports(body: str) -> Iterator[str]:
    """Return the imports of the names that the stub uses."""
    known: dict[str, str] = {kind.__name__: kind.__module__ for kind in (AuditEntry, Draft, Hit, Page, Recall, Receipt)}
    for method in METHODS.values():
        response = method.operation.response
        items = response.__pydantic_generic_metadata__["args"]
        known |= {kind.__name__: kind.__module__ for kind in items or [response]}
    used = {name for name in re.findall(r"\b[A-Z]\w+", body) if name in known}
    modules = {known[name] for name in used}
    yield from ("import builtins", "from collections.abc import Callable, Iterable, Mapping, Sequence")
    yield from (
        "from datetime import datetime",
        "from pathlib import Path",
        "from typing import Any, Literal, overload",
        "",
    )
    yield from ("from pydantic import JsonValue", "", "from engram.client.sending import AsyncSender, Sender")
    for module in sorted(modules):
        yield f"from {module} import {', '.join(sorted(name for name in used if known[name] == module))}"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
