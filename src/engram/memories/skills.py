"""Read, validate and render skill definitions.

Templates use a subset of Jinja without side effects: only the node types, filters, tests and names listed here are
allowed, and the amount of work and output is limited. Violations are refused when a skill is added; rendering runs in
Jinja's sandbox as well.
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

MAX_TEMPLATE = 20_000
MAX_PATTERN = 500
MAX_PHRASE = 200
MAX_VALUES = 100_000
MAX_OUTPUT = 200_000
MAX_LIST = 1000
MAX_RANGE = 1000
MAX_DEPTH = 30
MAX_NESTED_LOOPS = 3
MAX_WORK = 20_000
"""Maximum number of template nodes that the loops of a skill may evaluate in total."""

_WORK = "work left"
"""A context variable whose name cannot be written in a template."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_RESERVED = frozenset(
    """and as block call caller context do elif else endfor endif environment false filter for from if import in
    include is kwargs loop macro none not or range raw recursive scoped self set super true varargs with""".split()
)
_DELIMITER = re.compile(r"\{[{%#]")
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
    """Read a skill from YAML text, a file or a mapping. Raises `InvalidInput` for an unsafe or invalid one."""
    what = f"the skill in {source.name}" if isinstance(source, Path) else "the skill"
    written = source if isinstance(source, str | bytes | Path) else json.dumps(dict(source), ensure_ascii=False)
    return check_skill(read_as(written, what, SkillDefinition))


def check_skill(skill: SkillDefinition) -> SkillDefinition:
    """Return the skill if its names, patterns, defaults and templates are valid. Raises `InvalidInput`."""
    where = f"skill {skill.name}"
    for name, parameter in skill.parameters.items():
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise InvalidInput(
                f"{where}: {name[:80]!r} cannot name a parameter; use a word such as `topic` or `max_words`"
            )
        if parameter.default is not None:
            _check_value(f"{where}: the default of {name}", parameter, parameter.default)
    for phrase in (*skill.triggers.phrases, *skill.triggers.examples):
        if not phrase.strip() or len(phrase) > MAX_PHRASE:
            raise InvalidInput(f"{where}: a phrase or an example has 1 to {MAX_PHRASE} characters; shorten it")
    for pattern in skill.triggers.patterns:
        _pattern(pattern, where)
    for number, step in enumerate(skill.steps, 1):
        _template(step.template, frozenset(skill.parameters), f"{where}, step {number}")
    return skill


def to_yaml(skill: SkillDefinition) -> str:
    """Write a skill as YAML that `read_skill` reads back to the same skill; defaults are omitted."""
    value = skill.model_dump(mode="json", exclude_defaults=True)
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


def render_steps(skill: SkillDefinition, values: Mapping[str, Any]) -> list[str]:
    """Render each step with the parameters. Raises `InvalidInput`."""
    given = {**fill_parameters(skill, values), _WORK: [MAX_WORK]}
    names = frozenset(skill.parameters)
    return [
        _render(step.template, names, given, f"skill {skill.name}, step {number}")
        for number, step in enumerate(skill.steps, 1)
    ]


def fill_parameters(skill: SkillDefinition, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value for every parameter: the given one, the default, or `None`. Raises `InvalidInput`."""
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
        found[name] = None if value is None else _check_value(f"{name} of skill {skill.name}", parameter, value)
    if _size(list(found.values())) > MAX_VALUES:
        raise InvalidInput(f"the parameters have more than {MAX_VALUES:,} characters together; shorten them")
    return found


def parse_values(skill: SkillDefinition, texts: Mapping[str, str]) -> dict[str, Any]:
    """Parse parameter values given as texts, such as on a command line. Raises `InvalidInput`."""
    return {
        name: _parse_value(name, skill.parameters[name], text) if name in skill.parameters else text
        for name, text in texts.items()
    }


def match_pattern(skill: SkillDefinition, request: str) -> tuple[str, dict[str, Any]] | None:
    """Return the first pattern that matches a request, with the parameters from its named groups, or `None`."""
    for pattern in skill.triggers.patterns:
        match = _pattern(pattern, f"skill {skill.name}").search(request)
        if match is not None:
            groups = {name: text for name, text in match.groupdict().items() if text and name in skill.parameters}
            return pattern, {
                name: value
                for name, text in groups.items()
                if (value := _captured_value(skill, name, text)) is not None
            }
    return None


def escape_template(text: str) -> str:
    """Return a template that renders to exactly this text."""
    return _DELIMITER.sub(lambda found: f"{{{{ '{found[0]}' }}}}", text)


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Write multi-line texts as blocks, and repeat values instead of using YAML aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> Any:
        block = "\n" in text and text == text.lstrip() and all(line == line.rstrip() for line in text.split("\n"))
        number = text[:1] in set("+-.0123456789")
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if block else '"' if number else None)


_Dumper.add_representer(str, _Dumper.represent_text)


def _captured_value(skill: SkillDefinition, name: str, text: str) -> Any:
    parameter = skill.parameters[name]
    try:
        return _check_value(name, parameter, _parse_value(name, parameter, text))
    except InvalidInput:  # the request says it in a way that has to be asked about
        return None


def _parse_value(name: str, parameter: Parameter, text: str) -> Any:
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
        raise InvalidInput(f"{name} must be {_TYPE_NAMES[parameter.type]}, not {text[:80]!r}") from None


_TYPE_NAMES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "list": f"a list of at most {MAX_LIST} texts or numbers",
    "choice": "one of its choices",
}


def _check_value(what: str, parameter: Parameter, value: Any) -> Any:
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
            fits = isinstance(value, list | tuple) and len(value) <= MAX_LIST
            fits = fits and all(isinstance(one, str | int | float) for one in value)
        case "choice":
            fits = value in parameter.choices
    if not fits:
        choices = f" ({', '.join(parameter.choices)})" if parameter.choices else ""
        raise InvalidInput(f"{what} must be {_TYPE_NAMES[parameter.type]}{choices}, not {type(value).__name__}")
    return list(value) if parameter.type == "list" else value


@lru_cache(maxsize=1000)
def _pattern(pattern: str, where: str) -> Any:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = 1 << 20
    if not pattern or len(pattern) > MAX_PATTERN:
        raise InvalidInput(f"{where}: a pattern has 1 to {MAX_PATTERN} characters; shorten it")
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else error
        raise InvalidInput(
            f"{where}: the pattern {pattern!r} cannot be used: {reason}; see the syntax of RE2"
        ) from None


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, restricted to the operations listed here."""

    intercepted_binops = frozenset({"+", "-"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Add numbers only: concatenated texts could grow without limit."""
        if not all(isinstance(one, int | float) for one in (left, right)):
            raise SecurityError("only numbers can be added; write texts one after the other")
        return super().call_binop(context, operator, left, right)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return an element of a list or text by its index, never an attribute."""
        if not isinstance(argument, int) or not isinstance(obj, str | list | tuple):
            raise SecurityError("only a list or a text has places, and they are whole numbers")
        try:
            return obj[argument]
        except IndexError:
            return self.undefined(f"there is no place {argument}")


def _printable(value: Any) -> Any:
    """Convert a value for output: `None` to nothing, a list to comma-separated items. Refuses other types."""
    if isinstance(value, Undefined):
        return value
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return _join(value, ", ")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return value
    raise SecurityError("only texts, numbers and lists can be printed")


def _size(value: Any) -> int:
    """Return the approximate number of characters of a value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list | tuple):
        return sum(_size(one) + 2 for one in value)
    return 20


def _check_length(size: int) -> None:
    if size > MAX_OUTPUT:
        raise SecurityError(f"it makes a text of more than {MAX_OUTPUT:,} characters")


def _text(value: Any) -> str:
    if isinstance(value, Undefined):
        return str(value)
    if not isinstance(value, str | int | float):
        raise SecurityError("this filter is for a text or a number")
    return str(value)


def _require_list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple | range):
        raise SecurityError("this needs a list")
    return value


def _require_sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, str) else _require_list(value)


def _join(value: Any, between: str = "", attribute: None = None) -> str:
    parts, between = [str(_printable(one)) for one in _require_list(value)], _text(between)
    _check_length(sum(map(len, parts)) + len(between) * len(parts))
    return between.join(parts)


def _replace(value: Any, old: str, new: str) -> str:
    text, old, new = _text(value), _text(old), _text(new)
    if not old:
        raise SecurityError("replace needs a text to look for")
    _check_length(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _indent(value: Any, width: int = 4, first: bool = False) -> str:
    if not isinstance(width, int) or not 0 <= width <= 40:
        raise SecurityError("indent takes a width from 0 to 40")
    lines = _text(value).split("\n")
    _check_length(sum(map(len, lines)) + len(lines) * (width + 1))
    return "\n".join(" " * width + line if line and (number or first) else line for number, line in enumerate(lines))


def _truncate(value: Any, length: int = 255) -> str:
    text = _text(value)
    if not isinstance(length, int) or length < 1:
        raise SecurityError("truncate takes a length of at least 1")
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def _round(value: Any, digits: int = 0) -> float:
    if not isinstance(value, int | float) or not isinstance(digits, int) or not 0 <= digits <= 15:
        raise SecurityError("round takes a number and 0 to 15 digits")
    if not math.isfinite(value):
        raise SecurityError("round takes a number that is finite")
    return round(value, digits) if digits else round(value)


def _sort(value: Any) -> list[Any]:
    return sorted(_require_list(value), key=lambda one: (isinstance(one, str), one))


def _to_json(value: Any) -> str:
    if isinstance(value, Undefined):
        return str(value)
    _check_length(2 * _size(value))
    return json.dumps(value, ensure_ascii=False)


def _default(value: Any, otherwise: Any = "") -> Any:
    return otherwise if value is None or isinstance(value, Undefined) or value == "" else value


def _int(value: Any) -> int:
    try:
        return int(value) if not isinstance(value, str) else int(value[:20])
    except (ValueError, TypeError, OverflowError):
        raise SecurityError("int needs a number") from None


FILTERS: dict[str, Callable[..., Any]] = {
    "capitalize": lambda value: _text(value).capitalize(),
    "default": _default,
    "first": lambda value: next(iter(_require_sequence(value)), None),
    "indent": _indent,
    "int": _int,
    "join": _join,
    "last": lambda value: next(iter(reversed(_require_sequence(value))), None),
    "length": lambda value: len(_require_sequence(value)),
    "lower": lambda value: _text(value).lower(),
    "quote": lambda value: shlex.quote(_text(value)),
    "replace": _replace,
    "reverse": lambda value: list(reversed(_require_list(value))),
    "round": _round,
    "sort": _sort,
    "title": lambda value: _text(value).title(),
    "tojson": _to_json,
    "trim": lambda value: _text(value).strip(),
    "truncate": _truncate,
    "unique": lambda value: list(dict.fromkeys(_require_list(value))),
    "upper": lambda value: _text(value).upper(),
}
"""The allowed filters; `quote` quotes a text for a command line."""

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
    if found and (abs(found[-1] - found[0]) > 1 << 31 or len(found) > MAX_RANGE):
        raise SecurityError(f"a range has at most {MAX_RANGE} numbers")
    return found


@pass_context
def _charge_loop(context: Context, items: Any, cost: int) -> list[Any]:
    left = context[_WORK]
    found = list(_require_list(items))
    left[0] -= cost * len(found)
    if left[0] < 0:
        raise SecurityError("its loops go around too often")
    return found


def _sandbox() -> _Sandbox:
    sandbox = _Sandbox(
        undefined=StrictUndefined, finalize=_printable, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    sandbox.filters = {**FILTERS, _WORK: _charge_loop}
    sandbox.tests = dict(TESTS)
    sandbox.globals = {"range": _range}
    return sandbox


_SANDBOX = _sandbox()


@lru_cache(maxsize=1000)
def _template(source: str, names: frozenset[str], where: str) -> Any:
    """Compile a template. Raises `InvalidInput` if it uses anything not allowed."""
    if len(source) > MAX_TEMPLATE:
        raise InvalidInput(f"{where}: a template has at most {MAX_TEMPLATE:,} characters; split the step")
    try:
        tree = _SANDBOX.parse(source)
        _check_tree(tree, names)
        _limit_loops(tree)
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


def _check_tree(tree: nodes.Template, names: frozenset[str]) -> None:
    """Raise `TemplateSyntaxError` at the first node that is not allowed."""
    targets = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "store"}
    allowed = (names | targets) - _RESERVED
    around: list[tuple[nodes.Node, int, int]] = [(tree, 0, 0)]
    while around:
        node, depth, loops = around.pop()
        loops += isinstance(node, nodes.For)
        if depth > MAX_DEPTH or loops > MAX_NESTED_LOOPS:
            raise TemplateSyntaxError("it is nested too deeply", node.lineno)
        if _is_loop(node):
            continue
        if isinstance(node, nodes.Call) and _is_range(node):
            around += [(one, depth + 1, loops) for one in node.args]
            continue
        if reason := _violation(node, allowed):
            raise TemplateSyntaxError(reason, node.lineno)
        around += [(one, depth + 1, loops) for one in node.iter_child_nodes()]


def _is_loop(node: nodes.Node) -> bool:
    """Return true for an attribute of the loop variable, such as `loop.index`."""
    return (
        isinstance(node, nodes.Getattr)
        and isinstance(node.node, nodes.Name)
        and node.node.name == "loop"
        and node.attr in _LOOP
    )


def _is_range(node: nodes.Call) -> bool:
    named = isinstance(node.node, nodes.Name) and node.node.name == "range"
    return named and bool(node.args) and not (node.kwargs or node.dyn_args or node.dyn_kwargs)


def _violation(node: nodes.Node, allowed: frozenset[str]) -> str:
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


def _limit_loops(tree: nodes.Template) -> None:
    """Charge every loop for its work."""
    for loop in list(tree.find_all(nodes.For)):
        cost = 1 + sum(1 for _ in loop.find_all(nodes.Node))
        paid = nodes.Filter(loop.iter, _WORK, [nodes.Const(cost)], [], None, None, lineno=loop.lineno)
        loop.iter = paid.set_environment(_SANDBOX)


def _render(source: str, names: frozenset[str], values: Mapping[str, Any], where: str) -> str:
    template = _template(source, names, where)
    try:
        return "".join(_limit_output(template.generate(values))).strip()
    except (TemplateError, TypeError, ValueError) as error:
        raise InvalidInput(f"{where}: {error}; correct the template or the parameters") from None


def _limit_output(parts: Iterable[str]) -> Iterator[str]:
    size = 0
    for part in parts:
        size += len(part)
        _check_length(size)
        yield part
