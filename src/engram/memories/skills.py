"""What a skill is made of: read, checked, filled in.

Templates are Jinja's, cut down to a language without side effects: every construct, filter, test and name that may
occur is listed here, and how much a template may do and say is limited. Everything else is refused when a skill is
added, and the sandbox stands behind that.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import re2
import yaml
from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.model.skill import Parameter, SkillDefinition
from engram.text.safe_yaml import read_as

LONGEST_TEMPLATE = 20_000
LONGEST_PATTERN = 500
LONGEST_PHRASE = 200
LONGEST_VALUES = 100_000
LONGEST_OUTPUT = 200_000
LONGEST_LIST = 1000
LONGEST_RANGE = 1000
DEEPEST = 30
NESTED_LOOPS = 3
MOST_WORK = 20_000
"""How many parts of templates the loops of one skill evaluate, each as often as the loop goes around."""

_WORK = "work left"
"""A name that no template can say."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_RESERVED = frozenset(
    """and as block call caller context do elif else endfor endif environment false filter for from if import in
    include is kwargs loop macro none not or range raw recursive scoped self set super true varargs with""".split()
)
_OPENING = re.compile(r"\{[{%#]")
_LOOP = frozenset({"index", "index0", "revindex", "revindex0", "first", "last", "length"})
_NODES: tuple[type[nodes.Node], ...] = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.If,
    nodes.For,
    nodes.CondExpr,
    nodes.Name,
    nodes.Const,
    nodes.List,
    nodes.Tuple,
    nodes.Compare,
    nodes.Operand,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.Add,
    nodes.Sub,
    nodes.Neg,
    nodes.Getitem,
    nodes.Slice,
    nodes.Filter,
    nodes.Test,
    nodes.Keyword,
)


def read_skill(source: str | bytes | Path | Mapping[str, JsonValue]) -> SkillDefinition:
    """The skill in a YAML text, in a file, or in a mapping; what is unsafe or does not fit is refused."""
    what = f"the skill in {source.name}" if isinstance(source, Path) else "the skill"
    written = source if isinstance(source, str | bytes | Path) else json.dumps(dict(source), ensure_ascii=False)
    return checked(read_as(written, what, SkillDefinition))


def checked(skill: SkillDefinition) -> SkillDefinition:
    """The same skill, if its names, patterns, defaults and templates can be used. Raises `InvalidInput`."""
    where = f"skill {skill.name}"
    for name, parameter in skill.parameters.items():
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise InvalidInput(
                f"{where}: {name[:80]!r} cannot name a parameter; use a word such as `topic` or `max_words`"
            )
        if parameter.default is not None:
            _fit(f"{where}: the default of {name}", parameter, parameter.default)
    for phrase in (*skill.triggers.phrases, *skill.triggers.examples):
        if not phrase.strip() or len(phrase) > LONGEST_PHRASE:
            raise InvalidInput(f"{where}: a phrase or an example has 1 to {LONGEST_PHRASE} characters; shorten it")
    for pattern in skill.triggers.patterns:
        _pattern(pattern, where)
    for number, step in enumerate(skill.steps, 1):
        _template(step.template, frozenset(skill.parameters), f"{where}, step {number}")
    return skill


def to_yaml(skill: SkillDefinition) -> str:
    """The skill as YAML that `read_skill` reads back as the same skill; what has its default is left out."""
    value = skill.model_dump(mode="json", exclude_defaults=True)
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


def rendered(skill: SkillDefinition, values: Mapping[str, Any]) -> list[str]:
    """The text of each step with the parameters filled in. Raises `InvalidInput`."""
    given = {**filled(skill, values), _WORK: [MOST_WORK]}
    names = frozenset(skill.parameters)
    return [
        _render(step.template, names, given, f"skill {skill.name}, step {number}")
        for number, step in enumerate(skill.steps, 1)
    ]


def filled(skill: SkillDefinition, values: Mapping[str, Any]) -> dict[str, Any]:
    """A value for every parameter: the one given, else the default, else `None`. Raises `InvalidInput`."""
    known = ", ".join(skill.parameters) or "none"
    if unknown := [name for name in values if name not in skill.parameters]:
        raise InvalidInput(f"skill {skill.name} has no parameter {str(unknown[0])[:80]!r}; it has: {known}")
    missing = [n for n, p in skill.parameters.items() if p.required and values.get(n) is None]
    if missing:
        raise InvalidInput(f"skill {skill.name} needs {', '.join(missing)}; give a value for each")
    found: dict[str, Any] = {}
    for name, parameter in skill.parameters.items():
        value = values.get(name)
        value = parameter.default if value is None else value
        found[name] = None if value is None else _fit(f"{name} of skill {skill.name}", parameter, value)
    if _size(list(found.values())) > LONGEST_VALUES:
        raise InvalidInput(f"the parameters have more than {LONGEST_VALUES:,} characters together; shorten them")
    return found


def from_texts(skill: SkillDefinition, texts: Mapping[str, str]) -> dict[str, Any]:
    """Values for parameters that were given as texts, such as on a command line. Raises `InvalidInput`."""
    return {
        name: _from_text(name, skill.parameters[name], text) if name in skill.parameters else text
        for name, text in texts.items()
    }


def captured(skill: SkillDefinition, request: str) -> tuple[str, dict[str, Any]] | None:
    """The first pattern that a request fits, and the parameters that its named groups tell; `None` if none does."""
    for pattern in skill.triggers.patterns:
        match = _pattern(pattern, f"skill {skill.name}").search(request)
        if match is not None:
            groups = {name: text for name, text in match.groupdict().items() if text and name in skill.parameters}
            return pattern, {
                name: value for name, text in groups.items() if (value := _told(skill, name, text)) is not None
            }
    return None


def literal(text: str) -> str:
    """A template that gives just this text."""
    return _OPENING.sub(lambda found: f"{{{{ '{found[0]}' }}}}", text)


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes texts of several lines as such, and repeats what occurs twice instead of pointing to it."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> Any:
        block = "\n" in text and text == text.lstrip() and all(line == line.rstrip() for line in text.split("\n"))
        number = text[:1] in set("+-.0123456789")
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if block else '"' if number else None)


_Dumper.add_representer(str, _Dumper.represent_text)


def _told(skill: SkillDefinition, name: str, text: str) -> Any:
    parameter = skill.parameters[name]
    try:
        return _fit(name, parameter, _from_text(name, parameter, text))
    except InvalidInput:  # the request says it in a way that has to be asked about
        return None


def _from_text(name: str, parameter: Parameter, text: str) -> Any:
    try:
        match parameter.type:
            case "integer":
                return int(text)
            case "number":
                return float(text)
            case "boolean":
                return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[text.lower()]
            case "list":
                return [part.strip() for part in text.split(",") if part.strip()]
            case _:
                return text
    except (ValueError, KeyError):
        raise InvalidInput(f"{name} must be {_SAID[parameter.type]}, not {text[:80]!r}") from None


_SAID = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "list": f"a list of at most {LONGEST_LIST} texts or numbers",
    "choice": "one of its choices",
}


def _fit(what: str, parameter: Parameter, value: Any) -> Any:
    plain = isinstance(value, str | int | float) and (not isinstance(value, float) or math.isfinite(value))
    number = plain and not isinstance(value, str | bool)
    match parameter.type:
        case "string":
            fits = isinstance(value, str)
        case "integer":
            fits = number and isinstance(value, int) and abs(value) < 1 << 63
        case "number":
            fits = number and abs(value) < 1 << 63
        case "boolean":
            fits = isinstance(value, bool)
        case "list":
            fits = isinstance(value, list | tuple) and len(value) <= LONGEST_LIST
            fits = fits and all(isinstance(one, str | int | float) for one in value)
        case "choice":
            fits = value in parameter.choices
    if not fits:
        choices = f" ({', '.join(parameter.choices)})" if parameter.choices else ""
        raise InvalidInput(f"{what} must be {_SAID[parameter.type]}{choices}, not {type(value).__name__}")
    return list(value) if parameter.type == "list" else value


@lru_cache(maxsize=1000)
def _pattern(pattern: str, where: str) -> Any:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = 1 << 20
    if not pattern or len(pattern) > LONGEST_PATTERN:
        raise InvalidInput(f"{where}: a pattern has 1 to {LONGEST_PATTERN} characters; shorten it")
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else error
        raise InvalidInput(
            f"{where}: the pattern {pattern!r} cannot be used: {reason}; see the syntax of RE2"
        ) from None


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with nothing in it but what is listed here."""

    intercepted_binops = frozenset({"+", "-"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Numbers are added, texts are not: those would grow without a limit."""
        if not all(isinstance(one, int | float) for one in (left, right)):
            raise SecurityError("only numbers can be added; write texts one after the other")
        return super().call_binop(context, operator, left, right)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """A place in a list or a text, never an attribute."""
        if not isinstance(argument, int) or not isinstance(obj, str | list | tuple):
            raise SecurityError("only a list or a text has places, and they are whole numbers")
        try:
            return obj[argument]
        except IndexError:
            return self.undefined(f"there is no place {argument}")


def _finished(value: Any) -> Any:
    """What is printed for a value: nothing for none, a list with commas; what is no value is refused."""
    if isinstance(value, Undefined):
        return value
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return _joined(value, ", ")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return value
    raise SecurityError("only texts, numbers and lists can be printed")


def _size(value: Any) -> int:
    """How many characters a value has, as far as it matters."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list | tuple):
        return sum(_size(one) + 2 for one in value)
    return 20


def _within(size: int) -> None:
    if size > LONGEST_OUTPUT:
        raise SecurityError(f"it makes a text of more than {LONGEST_OUTPUT:,} characters")


def _text(value: Any) -> str:
    if isinstance(value, Undefined):
        return str(value)
    if not isinstance(value, str | int | float):
        raise SecurityError("this filter is for a text or a number")
    return str(value)


def _items(value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple | range):
        raise SecurityError("this needs a list")
    return value


def _sized(value: Any) -> Sequence[Any]:
    return value if isinstance(value, str) else _items(value)


def _joined(value: Any, between: str = "", attribute: None = None) -> str:
    parts, between = [str(_finished(one)) for one in _items(value)], _text(between)
    _within(sum(map(len, parts)) + len(between) * len(parts))
    return between.join(parts)


def _replaced(value: Any, old: str, new: str) -> str:
    text, old, new = _text(value), _text(old), _text(new)
    if not old:
        raise SecurityError("replace needs a text to look for")
    _within(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _indented(value: Any, width: int = 4, first: bool = False) -> str:
    if not isinstance(width, int) or not 0 <= width <= 40:
        raise SecurityError("indent takes a width from 0 to 40")
    lines = _text(value).split("\n")
    _within(sum(map(len, lines)) + len(lines) * (width + 1))
    return "\n".join(" " * width + line if line and (number or first) else line for number, line in enumerate(lines))


def _shortened(value: Any, length: int = 255) -> str:
    text = _text(value)
    if not isinstance(length, int) or length < 1:
        raise SecurityError("truncate takes a length of at least 1")
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def _numbered(value: Any, digits: int = 0) -> float:
    if not isinstance(value, int | float) or not isinstance(digits, int) or not 0 <= digits <= 15:
        raise SecurityError("round takes a number and 0 to 15 digits")
    if not math.isfinite(value):
        raise SecurityError("round takes a number that is finite")
    return round(value, digits) if digits else round(value)


def _sorted(value: Any) -> list[Any]:
    return sorted(_items(value), key=lambda one: (isinstance(one, str), one))


def _as_json(value: Any) -> str:
    if isinstance(value, Undefined):
        return str(value)
    _within(2 * _size(value))
    return json.dumps(value, ensure_ascii=False)


def _or_else(value: Any, otherwise: Any = "") -> Any:
    return otherwise if value is None or isinstance(value, Undefined) or value == "" else value


def _whole(value: Any) -> int:
    try:
        return int(value) if not isinstance(value, str) else int(value[:20])
    except (ValueError, TypeError, OverflowError):
        raise SecurityError("int needs a number") from None


FILTERS: dict[str, Callable[..., Any]] = {
    "capitalize": lambda value: _text(value).capitalize(),
    "default": _or_else,
    "first": lambda value: next(iter(_sized(value)), None),
    "indent": _indented,
    "int": _whole,
    "join": _joined,
    "last": lambda value: next(iter(reversed(_sized(value))), None),
    "length": lambda value: len(_sized(value)),
    "lower": lambda value: _text(value).lower(),
    "quote": lambda value: shlex.quote(_text(value)),
    "replace": _replaced,
    "reverse": lambda value: list(reversed(_items(value))),
    "round": _numbered,
    "sort": _sorted,
    "title": lambda value: _text(value).title(),
    "tojson": _as_json,
    "trim": lambda value: _text(value).strip(),
    "truncate": _shortened,
    "unique": lambda value: list(dict.fromkeys(_items(value))),
    "upper": lambda value: _text(value).upper(),
}
"""The filters that templates have; `quote` makes a text one word of a command line."""

TESTS: dict[str, Callable[..., bool]] = {
    "defined": lambda value: not isinstance(value, Undefined),
    "even": lambda value: isinstance(value, int) and value % 2 == 0,
    "none": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "odd": lambda value: isinstance(value, int) and value % 2 == 1,
    "string": lambda value: isinstance(value, str),
}


def _range(*bounds: Any) -> range:
    if not bounds or not all(isinstance(bound, int) for bound in bounds):
        raise SecurityError("range takes whole numbers")
    try:
        found = range(*bounds)
    except (TypeError, ValueError) as error:
        raise SecurityError(str(error)) from None
    if found and (abs(found[-1] - found[0]) > 1 << 31 or len(found) > LONGEST_RANGE):
        raise SecurityError(f"a range has at most {LONGEST_RANGE} numbers")
    return found


@pass_context
def _counted(context: Context, items: Any, cost: int) -> list[Any]:
    left = context[_WORK]
    found = list(_items(items))
    left[0] -= cost * len(found)
    if left[0] < 0:
        raise SecurityError("its loops go around too often")
    return found


def _sandbox() -> _Sandbox:
    sandbox = _Sandbox(
        undefined=StrictUndefined, finalize=_finished, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    sandbox.filters = {**FILTERS, _WORK: _counted}
    sandbox.tests = dict(TESTS)
    sandbox.globals = {"range": _range}
    return sandbox


_SANDBOX = _sandbox()


@lru_cache(maxsize=1000)
def _template(source: str, names: frozenset[str], where: str) -> Any:
    """The compiled template, if it says nothing but what templates may say. Raises `InvalidInput`."""
    if len(source) > LONGEST_TEMPLATE:
        raise InvalidInput(f"{where}: a template has at most {LONGEST_TEMPLATE:,} characters; split the step")
    try:
        tree = _SANDBOX.parse(source)
        _refuse(tree, names)
        _count(tree)
        code = _SANDBOX.compile(tree)
    except TemplateSyntaxError as error:
        raise InvalidInput(f"{where}, line {error.lineno} of the template: {error.message}; correct it") from None
    except TemplateError as error:  # of what it says without any parameter
        raise InvalidInput(f"{where}: {error}; correct the template") from None
    except (RecursionError, ValueError):
        raise InvalidInput(
            f"{where}: the template is nested too deeply, or has too large a number; simplify it"
        ) from None
    return _SANDBOX.template_class.from_code(_SANDBOX, code, _SANDBOX.globals)


def _refuse(tree: nodes.Template, names: frozenset[str]) -> None:
    """Raise `TemplateSyntaxError` at the first thing that a template may not say."""
    targets = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "store"}
    allowed = (names | targets) - _RESERVED
    around: list[tuple[nodes.Node, int, int]] = [(tree, 0, 0)]
    while around:
        node, depth, loops = around.pop()
        loops += isinstance(node, nodes.For)
        if depth > DEEPEST or loops > NESTED_LOOPS:
            raise TemplateSyntaxError("it is nested too deeply", node.lineno)
        if _is_loop(node):
            continue
        if isinstance(node, nodes.Call) and _is_range(node):
            around += [(one, depth + 1, loops) for one in node.args]
            continue
        if reason := _objection(node, allowed):
            raise TemplateSyntaxError(reason, node.lineno)
        around += [(one, depth + 1, loops) for one in node.iter_child_nodes()]


def _is_loop(node: nodes.Node) -> bool:
    """Such as `loop.index`."""
    return (
        isinstance(node, nodes.Getattr)
        and isinstance(node.node, nodes.Name)
        and node.node.name == "loop"
        and node.attr in _LOOP
    )


def _is_range(node: nodes.Call) -> bool:
    named = isinstance(node.node, nodes.Name) and node.node.name == "range"
    return named and bool(node.args) and not (node.kwargs or node.dyn_args or node.dyn_kwargs)


def _objection(node: nodes.Node, allowed: frozenset[str]) -> str:
    if isinstance(node, nodes.Name) and node.name not in allowed:
        return f"{node.name!r} is no parameter of this skill"
    if isinstance(node, nodes.Filter) and node.name not in FILTERS:
        return f"there is no filter {node.name!r}; there are {', '.join(FILTERS)}"
    if isinstance(node, nodes.Test) and node.name not in TESTS:
        return f"there is no test {node.name!r}; there are {', '.join(TESTS)}"
    if isinstance(node, nodes.For) and node.recursive:
        return "a loop cannot be recursive"
    if isinstance(node, nodes.Filter | nodes.Test) and (node.dyn_args or node.dyn_kwargs):
        return "arguments cannot be unpacked"
    if isinstance(node, nodes.Getattr):
        return f"the attribute {node.attr!r} cannot be used; templates have only values"
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and not isinstance(node.arg.value, int):
        return f"{node.arg.value!r} is no place in a list; places are whole numbers"
    if isinstance(node, nodes.Const) and isinstance(node.value, float) and not math.isfinite(node.value):
        return "it has a number that is too large"
    if isinstance(node, nodes.Call):
        return "nothing can be called but range"
    if not isinstance(node, _NODES):
        return f"{type(node).__name__} cannot be used in a template"
    return ""


def _count(tree: nodes.Template) -> None:
    """Let every loop pay for what it does each time around."""
    for loop in list(tree.find_all(nodes.For)):
        cost = 1 + sum(1 for _ in loop.find_all(nodes.Node))
        paid = nodes.Filter(loop.iter, _WORK, [nodes.Const(cost)], [], None, None, lineno=loop.lineno)
        loop.iter = paid.set_environment(_SANDBOX)


def _render(source: str, names: frozenset[str], values: Mapping[str, Any], where: str) -> str:
    template = _template(source, names, where)
    try:
        return "".join(_bounded(template.generate(values))).strip()
    except (TemplateError, TypeError, ValueError) as error:
        raise InvalidInput(f"{where}: {error}; correct the template or the parameters") from None


def _bounded(parts: Iterable[str]) -> Iterator[str]:
    size = 0
    for part in parts:
        size += len(part)
        _within(size)
        yield part
