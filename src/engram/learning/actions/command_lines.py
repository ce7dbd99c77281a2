"""Bring command lines and phrases into a canonical form, so that two spellings of one action compare as equal.

Rules do most of it: wrappers (such as `sudo`) and `cd` are dropped, options are unordered, a short option becomes its
long form, values are masked, a second subcommand is recognised by its verb, and words are compared by their stems. The
tables hold only what no rule can derive: other names of programs, subcommands and options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from engram.text.terms import STOP_WORDS, index_terms

MOST_WORDS = 48
MOST_LETTERS = 64

WRAPPERS = frozenset({"sudo", "env", "time", "nohup", "exec", "command", "then", "nice"})
"""Programs that run another program, which is the action."""
_WRAPPER_VALUES = frozenset({"-u", "-g", "-n"})
_FILLER_WORDS = frozenset(
    """attempt conduct do execute i just lets let's perform please run should the to try use using we will""".split()
)
"""Words before a phrase that add nothing: "do a rolling update" is "rolling update"."""
_LINKING_WORDS = frozenset({"using", "via"})
_DIRECTIONS = frozenset({"up", "down", "off", "not", "no", "without", "before", "after"})
"""Stop words that make it a different action."""
_PROSE = frozenset("a about an as at by for from in into it of the this to with".split())
"""Words that mark a text as a phrase rather than a command line."""
_ENVIRONMENT_NAMES = {"prod": "production", "stage": "staging", "dev": "development"}
ENVIRONMENTS = frozenset({*_ENVIRONMENT_NAMES.values(), "qa", "uat", "sandbox", "preproduction"})
"""Environments an action may name; actions for different environments are different actions."""

_RUNNERS = {
    "bundle": "exec",
    "npx": "",
    "bunx": "",
    "uvx": "",
    **dict.fromkeys(("hatch", "pdm", "pipenv", "poetry", "rye", "uv"), "run"),
}
"""Programs that run another one in a managed environment, with the subcommand that does so."""
_PREFIX_PROGRAMS = frozenset({("uv", "pip")})
"""Programs that take another program as their subcommand."""
_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "apt": ("apt-get",),
    "docker-compose": ("docker", "compose"),
    "gradlew": ("gradle",),
    "k": ("kubectl",),
    "mvnw": ("mvn",),
    "nodejs": ("node",),
}
_PACKAGES = {
    "add": "install",
    "i": "install",
    "r": "uninstall",
    "remove": "uninstall",
    "rm": "uninstall",
    "run-script": "run",
    "t": "test",
    "un": "uninstall",
    "up": "update",
}
_SUBCOMMANDS: Mapping[str, Mapping[str, str]] = {
    "bun": _PACKAGES,
    "cargo": {"b": "build", "c": "check", "d": "doc", "r": "run", "t": "test"},
    "npm": _PACKAGES,
    "pnpm": _PACKAGES,
}
_DEFAULT_SUBCOMMANDS: Mapping[str, tuple[str, ...]] = {"yarn": ("yarn", "install")}
"""Programs that do something useful without a subcommand, and the command this equals."""
_SYNONYMS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("docker", "container", "ls"): ("docker", "ps"),
    ("docker", "image", "ls"): ("docker", "images"),
    ("docker", "image", "rm"): ("docker", "rmi"),
    **{("docker", "container", verb): ("docker", verb) for verb in "cp exec kill logs rm run start stop".split()},
    **{("docker", "image", verb): ("docker", verb) for verb in "build load pull push save tag".split()},
}
SIBLINGS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("npm", "ci"): ("npm", "install"),
    ("npm", "install"): ("npm", "ci"),
}
"""Actions that differ, but usually fail for the same reasons."""
_LONG_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "docker": {"-d": "--detach", "-f": "--file", "-t": "--tag"},
    "git": {"-f": "--force"},
    "git push": {"-d": "--delete", "-u": "--set-upstream"},
    "kubectl": {"-f": "--filename", "-l": "--selector", "-n": "--namespace", "-o": "--output"},
    "make": {"-n": "--dry-run"},
    "npm": {"-D": "--save-dev", "-f": "--force", "-g": "--global"},
    "pip": {"-U": "--upgrade", "-r": "--requirement"},
    "rm": {"-R": "--recursive", "-f": "--force", "-r": "--recursive"},
    "rsync": {"-n": "--dry-run"},
}
_TASK_RUNNERS = frozenset({"bun", "composer", "npm", "pnpm", "yarn"})
"""Programs whose `run` is followed by the name of a task."""

_QUOTES = "\"'`,;.!?"
_OPTION = re.compile(r"--?[A-Za-z]")
_CLUSTER = re.compile(r"-[A-Za-z]{2,4}")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z+_-]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w{0,63}=")
_VERSIONED = re.compile(r"(gcc|java|lua|node|perl|php|pip|pytest|python|ruby)[\d.]+")
_TAKES_VALUE = re.compile(
    r"-[CcHnpf]|--?(as|chdir|cluster|config|context|cwd|directory|env-file|file|filename|git-dir|host|kubeconfig"
    r"|log-?level|namespace|output|prefix|profile|project(-name|-directory)?|region|registry|server|user|work-tree"
    r"|workspace)"
)
"""Options before a subcommand that are followed by a value."""
_IRRELEVANT = re.compile(
    r"-[qvy]|--?(assume-yes|auto-approve|colou?r|progress|quiet(-.*)?|set-upstream|silent|verbose|yes"
    r"|no-(ansi|audit|banner|colou?r|fund|input|interaction|pager|progress))"
)
"""Options that change what is shown or asked, not what is done."""
_DECISIVE = re.compile(
    r"--?(abort|all|amend|continue|delete|destroy|dry-?run|force|global|hard|help|keep|mirror|mixed|prod(uction)?|prune"
    r"|purge|rebase|recursive|soft|squash|tags|undo|version)|--?(allow|disable|force|ignore|legacy|no|only|skip|without)-.*|--.*-only"
)
"""Options that make it a different action: one that does more, less, or nothing."""
_VERBS = frozenset(
    """add apply approve build cancel check clean clear close commit config copy cp create delete deploy describe
    diff disable down drop edit enable exec export fetch generate get history import info init inspect install kill
    list load log login logout logs ls merge mv new open patch pause pop prune ps publish pull purge push put reload
    remove rename replace reset restart restore resume rm rollback run save scale search set show start stat
    status stop sync tag test top undo uninstall unset up update upgrade validate verify view wait watch""".split()
)
"""Second subcommands of programs: `kubectl rollout restart`, `git stash pop`, `docker compose up`."""


_REFSPECS = {":": "--delete", "+": "--force"}
"""Options that the first character of a pushed git branch stands for."""
MOST_LAYERS = 4
"""Shells, `cd` commands and pipes that are removed around a command at most."""
_CHANGE_OF_FOLDER = re.compile(r"^\s*cd\s[^&;|]{0,500}(?:&&|;)")
_SHELL = re.compile(r"(?:sudo\s+)?(?:\S{1,64}/)?(?:ba|da|k|z)?sh\s+-[a-z]{0,3}c\s+(['\"])(.*)\1", re.DOTALL)
_OUTPUT_HANDLING = re.compile(
    r"\s+(?:(?:\d|&)?>>?\s*(?:&\d|[^\s|;&'\"\d][^\s|;&'\"]{0,200})|\|&?\s*(?:cat|head|less|more|tail|tee)\b[^|;&'\"]{0,200})$"
)
"""The end of a command line that redirects its output, or pipes it into a program that only shows it."""


class CanonicalForm(NamedTuple):
    """The canonical form of an action: what it does, what makes it a different action, and the rest.

    `decisive` are the options and words that make it a different action. `exact` also holds the values; it is empty if
    only the text itself identifies them. `objects` are the plain words of the rest, which in a phrase name what it is
    done to.
    """

    head: tuple[str, ...]
    decisive: frozenset[str]
    rest: frozenset[str]
    exact: tuple[str, ...] = ()
    objects: frozenset[str] = frozenset()
    is_phrase: bool = False


def canonical_form(text: str) -> CanonicalForm:
    """Return the canonical form of a command line or a phrase."""
    words = _strip_wrappers(_strip_shell(text).split()[: 4 * MOST_WORDS])
    if len(words) == 1 and "/" not in words[0]:
        words = _strip_wrappers(re.split(r"[-\s]+", words[0]))
    head, parts = _split_program(words)
    decisive, rest, values, objects = list[str](), list[str](), list[str](), set[str]()
    is_phrase = not _PROSE.isdisjoint(words) and not any(map(_OPTION.match, words))
    arguments = False
    for part, before in _split_options(_expand_refspecs(head, parts)):
        short = _short_options(head)
        if _OPTION.match(part):
            name, kind = _classify_option(part, short)
            if kind:
                (decisive if kind == "decisive" else rest).append(name)
            continue
        word = mask_word(part)
        if not word or word.startswith("+") or word in _LINKING_WORDS:
            continue
        if not head:
            head.append(word)
        elif not arguments and _is_subcommand(head, word, part, short.get(before, before)):
            head.append(_SUBCOMMANDS.get(head[0], {}).get(word, word) if len(head) == 1 else word)
        elif word in _DIRECTIONS:
            decisive.append(word)
        elif word not in STOP_WORDS:
            arguments |= not before.startswith("-") and word != "<value>"
            values.append(part.strip(_QUOTES).lower() if word.startswith("<") or word.endswith("=") else stem(word))
            if word in ENVIRONMENTS or not _TAKES_VALUE.fullmatch(short.get(before, before)):
                rest.append(word if word in ENVIRONMENTS else stem(word))
            if _PLAIN.fullmatch(word) and not (is_phrase and part[0].isupper()):
                objects.add(stem(word))
    found = _SYNONYMS.get(tuple(head), tuple(head))
    found = _DEFAULT_SUBCOMMANDS.get(found[0], found) if len(found) == 1 and not arguments else found
    options = sorted({*decisive, *(one for one in rest if one.startswith("-"))})
    exact = (*map(stem, found), "|", *options, "|", *values) if found else ()
    changed, others = frozenset(decisive[:MOST_WORDS]), frozenset(rest[:MOST_WORDS])
    return CanonicalForm(found, changed, others, exact, frozenset(objects), is_phrase)


def stem(word: str) -> str:
    """Return the stem of a word, equal for all its inflections; masks and the like are returned as they are."""
    return "-".join(index_terms(word)) if _PLAIN.fullmatch(word) else word


def mask_word(part: str) -> str:
    """Return a word of a command line in lower case, or a mask such as `<path>` if it is a value."""
    bare = part.strip(_QUOTES).lower()
    if _ASSIGNMENT.match(bare):
        return bare.partition("=")[0][:MOST_LETTERS] + "="
    if "/" in bare or "\\" in bare:
        return "<path>"
    if part[:1] in "\"'`":
        return "<text>"
    if any(character.isdigit() for character in bare):
        return "<value>"
    if "." in bare:
        return "<path>"
    return _ENVIRONMENT_NAMES.get(bare, bare)[:MOST_LETTERS]


def _strip_shell(text: str) -> str:
    """Remove `cd` before a command, the shell around it, and the handling of its output."""
    for _ in range(MOST_LAYERS):
        inner = _OUTPUT_HANDLING.sub("", _CHANGE_OF_FOLDER.sub("", text))
        inner = shell[2] if (shell := _SHELL.fullmatch(inner.strip())) else inner
        if inner == text or not inner.strip():
            break
        text = inner
    return text


def _short_options(head: Sequence[str]) -> dict[str, str]:
    """Return the long names of the short options of a program and its subcommand."""
    return {**_LONG_OPTIONS.get(head[0] if head else "", {}), **_LONG_OPTIONS.get(" ".join(head[:2]), {})}


def _strip_wrappers(parts: list[str]) -> list[str]:
    """Remove what precedes the program: wrappers with their options, variables and filler words."""
    while len(parts) > 1:
        first = parts[0].lower()
        if first in WRAPPERS:
            parts = parts[1:]
            while len(parts) > 1 and parts[0].startswith("-"):
                parts = parts[2:] if parts[0] in _WRAPPER_VALUES and len(parts) > 2 else parts[1:]
        elif (
            _ASSIGNMENT.match(parts[0]) or first in _FILLER_WORDS or (first in STOP_WORDS and first not in _DIRECTIONS)
        ):
            parts = parts[1:]
        elif first in _RUNNERS and _RUNNERS[first] in ("", parts[1].lower()) and len(parts) > bool(_RUNNERS[first]) + 1:
            parts = parts[1 + bool(_RUNNERS[first]) :]
        elif (first, parts[1].lower()) in _PREFIX_PROGRAMS:
            parts = parts[1:]
        else:
            break
    return parts


def _split_program(parts: Sequence[str]) -> tuple[list[str], Sequence[str]]:
    """Return the program by its usual name, and its arguments; `python -m NAME` counts as the program NAME."""
    if not parts:
        return [], parts
    bare = parts[0].strip(_QUOTES).lower()
    name = (bare.rpartition("/")[2] or bare).removesuffix(".exe")[:MOST_LETTERS]
    versioned = _VERSIONED.fullmatch(name)
    name = versioned[1] if versioned else name
    if name == "python" and len(parts) > 2 and parts[1] == "-m":
        return [mask_word(parts[2]).partition(".")[0] or name], parts[3:]
    return list(_PROGRAMS.get(name, (name,) if name else ())), parts[1:]


def _expand_refspecs(head: Sequence[str], parts: Sequence[str]) -> Iterator[str]:
    """Yield the arguments, with `:branch` and `+branch` of a `git push` written as the options they stand for."""
    pushed = head == ["git"] and "push" in parts
    for part in parts:
        option = _REFSPECS.get(part[0]) if pushed else None
        yield from (part,) if option is None else (option, part[1:])


def _split_options(parts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each argument with the one before it, with `--file=a` split into `--file a` and `-rf` into `-r -f`."""
    before = ""
    for part in parts:
        name, equals, value = part.partition("=") if part.startswith("-") else (part, "", "")
        known = _IRRELEVANT.fullmatch(name) or _DECISIVE.fullmatch(name)
        several = [f"-{letter}" for letter in name[1:]] if _CLUSTER.fullmatch(name) and not known else [name]
        for one in several:
            yield one, before
            before = one
        if equals and value:
            yield value, before
            before = value


def _classify_option(part: str, short: Mapping[str, str]) -> tuple[str, str]:
    """Return the long name of an option, and "decisive" or "other"; an empty kind if the option is irrelevant."""
    name = part.rstrip(_QUOTES)
    name = short.get(name, name if len(name) == 2 else name.lower())[:MOST_LETTERS]
    if _IRRELEVANT.fullmatch(name):
        return name, ""
    if _DECISIVE.fullmatch(name):
        return "--" + name.lstrip("-"), "decisive"
    return name, "other"


def _is_subcommand(head: Sequence[str], word: str, part: str, before: str) -> bool:
    """Return whether a word belongs to what is done, rather than to its object; `before` is the word before it."""
    if len(head) > 2 or _TAKES_VALUE.fullmatch(before):
        return False
    if len(head) == 1 and word in _SUBCOMMANDS.get(head[0], {}):
        return True
    if len(head) == 2 and not (head[0] in _TASK_RUNNERS and head[1] == "run"):
        return word.partition("-")[0] in _VERBS and _PLAIN.fullmatch(part) is not None
    return len(head) == 2 or (_PLAIN.fullmatch(word) is not None and word not in STOP_WORDS)
