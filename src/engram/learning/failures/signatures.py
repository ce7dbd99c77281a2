"""Extract the signature of an error: its kind, its message without values, and where it was raised."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from traceback import TracebackException

from engram.learning.failures.log_templates import tokens
from engram.learning.failures.variable_parts import cut, mask_message, readable
from engram.text.terms import digest

MAX_FRAMES = 5
MAX_MESSAGE = 500
_HEAD, _TAIL = 20_000, 60_000
"""Longer texts are cut: runtimes print the cause at the start or at the end."""
_MAX_LINES, _MAX_LINE = 2000, 2000


@dataclass(frozen=True, slots=True)
class ErrorSignature:
    """The identity of a failure; equal `key` for the same failure at another time, place or with other ids."""

    format: str
    """python, javascript, java, go, rust, compiler, test, shell, http or log."""
    kind: str
    """The class of the exception, the code of the error, `HTTP 503` or `exit 127`; empty if there is none."""
    message: str
    """The most informative line, with values masked."""
    frames: tuple[str, ...]
    """Functions of the user's code, innermost first; library functions only if there are no others."""
    original: str = ""
    """The most informative line with its values, for people."""
    former: tuple[str, str] | None = None
    """Kind and message as earlier versions extracted them, if they differ."""

    @property
    def text(self) -> str:
        """One line for people; extracting its signature gives the same key."""
        return ": ".join(part for part in (self.kind, self.message) if part)

    @property
    def outline(self) -> str:
        """The form in which messages are compared: kinds of values, and singular or plural, are ignored."""
        words = (_singular(token) for token in tokens(self.message))
        return " ".join(part for part in (self.kind and f"{self.kind}:", *words) if part)

    @property
    def key(self) -> str:
        """A stable digest of kind and message."""
        return digest(self.outline)


@dataclass(frozen=True, slots=True)
class _Frame:
    file: str
    function: str


def extract_error_signature(error: str | BaseException) -> ErrorSignature:
    """Return the signature of an exception, a traceback, a log line or any text, reading a bounded part of it."""
    return _of_text(error) if isinstance(error, str) else _of_exception(error)


def _of_exception(error: BaseException) -> ErrorSignature:
    """Read an exception. The key is that of `SomeError: message`, raised or not, regardless of its notes."""
    told = TracebackException.from_exception(error, lookup_lines=False)
    told.__notes__ = None
    frames = [_Frame(frame.filename, frame.name) for frame in reversed(told.stack)]
    lines = [cut(line.rstrip(), _MAX_LINE) for part in told.format_exception_only() for line in part.splitlines()]
    for number, line in enumerate(lines[:_MAX_LINES]):
        if found := _RAISED.match(line):
            rest = lines[number + 1 :]
            return _raised("python", found[1].rpartition(".")[2], _full_message(found[2] or "", rest), rest, frames)
    return _signature("python", type(error).__name__, "", frames)


def _of_text(text: str) -> ErrorSignature:
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]}\n{text[-_TAIL:]}"
    lines = [cut(line.rstrip(), _MAX_LINE) for line in _ESCAPES.sub("", text).splitlines()]
    if len(lines) > _MAX_LINES:
        lines = lines[: _MAX_LINES // 4] + lines[-_MAX_LINES * 3 // 4 :]
    if found := _first(_READERS, lines):
        return found
    bare = _without_statuses(lines)
    found = _first(_PRINTED, bare) or _log(bare)
    status = _exit_status(lines)
    return replace(found, former=(f"exit {status}", found.message)) if status and found.kind[:5] != "exit " else found


def _first(readers: Iterable[_Reader], lines: Sequence[str]) -> ErrorSignature | None:
    return next((found for reader in readers if (found := reader(lines))), None)


def _signature(
    format: str, kind: str, message: str, frames: Iterable[_Frame] = (), *, masked: bool = False
) -> ErrorSignature:
    said = message if masked else _without_status(message)
    shown, before = (message, message) if masked else (mask_message(said), _masked_before(message))
    former = None if shown == before else (kind, before)
    told = readable(said) if masked else _SPACES.sub(" ", said).strip()
    example = cut(": ".join(part for part in (kind, told) if part), MAX_MESSAGE)
    return ErrorSignature(format, kind, cut(shown, MAX_MESSAGE).strip(), _frame_texts(frames), example, former)


_MARK, _TRUTH = (
    re.compile(r"\[(secret|personal):([a-z0-9-]{1,40}):[0-9a-f]{8}\]"),
    re.compile(r"\b(?:true|false)\b", re.I),
)


def _masked_before(message: str) -> str:
    """Mask a message as earlier versions did: they masked true and false, and kept redaction marks."""
    return mask_message(_TRUTH.sub("<val>", _MARK.sub(r"[\1:\2:<id>]", message)))


_LIBRARIES = tuple(
    """site-packages/ dist-packages/ lib/python lib64/python node_modules/ node:internal internal/modules <frozen
    <string> /usr/lib /usr/local/go/ .cargo/registry /rustc/ rustlib/ go/pkg/mod/ libexec/ Python.framework .rustup/
    internal/process""".split()
)
_LIBRARY_NAMES = tuple(
    """java. javax. jdk. sun. com.sun. kotlin. scala. org.springframework. org.apache. org.junit. org.hibernate.
    io.netty. reactor. com.google.common. com.fasterxml. runtime. runtime/ std:: core:: alloc:: <core:: <alloc:: <std::
    tokio:: test:: rust_begin_unwind __rust _start __libc testing. reflect. sync. os. <unknown>""".split()
)


def _is_library(frame: _Frame) -> bool:
    file = frame.file.replace("\\", "/")
    return any(part in file for part in _LIBRARIES) or frame.function.startswith(_LIBRARY_NAMES)


def _frame_texts(frames: Iterable[_Frame]) -> tuple[str, ...]:
    every = list(frames)
    own = [frame for frame in every if not _is_library(frame)]
    shown = dict.fromkeys(_frame_text(frame) for frame in own or every)
    return tuple(shown)[:MAX_FRAMES]


def _frame_text(frame: _Frame) -> str:
    parts = [part for part in re.split(r"[\\/]", frame.file) if part not in ("", ".", "..", "file:", "webpack:")]
    place = "/".join(parts[-2:])
    return ":".join(part for part in (place, frame.function) if part)


_SPACES = re.compile(r"\s+")
_ESCAPES = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_PYTHON_START = "Traceback (most recent call last):"
_PYTHON_FRAME = re.compile(r'\s*(?:[|+] *)?File "([^"]+)", line \d+(?:, in (.+))?')
_GROUP_EDGE = re.compile(r"^\s*[|+] ?")
_RAISED = re.compile(r"^([A-Za-z_][\w.<>]{0,200})(?::\s?(.*))?$")
_VALIDATION = re.compile(r"^\d+ validation errors? for (.+)$")
_FIELD_INDEX = re.compile(r"\.\d+\b")
_VALIDATION_DETAIL = re.compile(r"^ {2,}(\S.*?) \[type=(\w+)\b")


def _python(lines: Sequence[str]) -> ErrorSignature | None:
    """Read the last traceback of a chain, the one that was shown."""
    starts = [number for number, line in enumerate(lines) if _PYTHON_START in line]
    first = starts[-1] + 1 if starts else 0
    frames: list[_Frame] = []
    last = -1
    for number in range(first, len(lines)):
        if found := _PYTHON_FRAME.match(lines[number]):
            frames.append(_Frame(found[1], (found[2] or "").strip()))
            last = number
    if not starts and not frames:
        return None
    for number in range(max(last + 1, first), len(lines)):
        line = _GROUP_EDGE.sub("", lines[number])
        if found := _RAISED.match(line):
            name, message = found[1].rpartition(".")[2], found[2] or ""
            return _raised("python", name, message, lines[number + 1 :], reversed(frames))
    return None


def _raised(format: str, name: str, message: str, rest: Sequence[str], frames: Iterable[_Frame] = ()) -> ErrorSignature:
    """Read an exception and its message; if its first line is empty, the message is on the next."""
    if found := _VALIDATION.match(message):
        return _signature(format, name or "ValidationError", _validation(found[1], rest), frames, masked=True)
    telling = message or next((line.strip() for line in rest if line.strip()), "")
    if answered := _status(telling, _SURELY_HTTP):
        return _signature(format, *answered, frames)
    if exited := _exited(telling):
        return replace(_signature(format, *exited, frames), former=(name, mask_message(telling)))
    return _signature(format, name, telling, frames)


def _validation(model: str, rest: Sequence[str]) -> str:
    """Return which fields of a model were refused and why, without the given values."""
    refused, field = [], ""
    for line in rest:
        if found := _VALIDATION_DETAIL.match(line):
            refused.append(f"{_FIELD_INDEX.sub('', field)}: {mask_message(found[1])} [type={found[2]}]")
        elif line and not line.startswith(" "):
            field = line
    title = model.replace("`", "").replace("'", "")
    return ": ".join(part for part in (f"validation error for {title}", "; ".join(dict.fromkeys(refused))) if part)


_JS_FRAME = re.compile(r"^\s*at (?:(?:async |new )?([^\s()]+)(?: \[as [^\]]+\])? \()?([^()\s]+?):\d+:\d+\)?$")
_FIREFOX_FRAME = re.compile(r"^([\w.$/<>*]{0,100})@([^\s@]+?):\d+:\d+$")
_JAVA_FRAME = re.compile(r"^\s*at ([\w.$/@<>-]+)\.([\w$<>]+)\(([^()]*)\)")
_JAVA_HEAD = re.compile(
    r"^(?:.{0,200}?Exception in thread \"[^\"]{0,200}\" )?(?:Caused by: )?"
    r"((?:[A-Za-z_]\w*\.)+[A-Z][\w$]*)(?::\s?(.*))?$"
)


def _java(lines: Sequence[str]) -> ErrorSignature | None:
    """Read the innermost cause, which Java prints last."""
    if not any(_JAVA_FRAME.match(line) for line in lines):
        return None
    kind, message, frames = "", "", list[_Frame]()
    for line in lines:
        if found := _JAVA_FRAME.match(line):
            name = found[1].rpartition("/")[2]
            frames.append(_Frame("", f"{name}.{found[2]}"))
        elif head := _JAVA_HEAD.match(line.strip() if line.lstrip().startswith("Caused by") else line):
            kind, message, frames = head[1].rpartition(".")[2], head[2] or "", []
        elif not frames and (named := _named_error(line)):
            kind, message = named
    return _signature("java", kind, message, frames) if kind else None


def _javascript(lines: Sequence[str]) -> ErrorSignature | None:
    frames, first = list[_Frame](), -1
    for number, line in enumerate(lines):
        if found := _JS_FRAME.match(line) or _FIREFOX_FRAME.match(line):
            first = number if first < 0 else first
            frames.append(_Frame(found[2], found[1] or ""))
    if not frames:
        return None
    for line in reversed(lines[:first]):
        if named := _named_error(line):
            return _raised("javascript", *named, (), frames)
    telling = next((line for line in reversed(lines[:first]) if line.strip()), "")
    return _signature("javascript", "", telling, frames)


_GO_PANIC = re.compile(r"^(panic|fatal error): (.*)$")
_GO_FUNCTION = re.compile(r"^([\w./*()-]+)\(.*\)$")
_GO_FILE = re.compile(r"^\t(\S+\.go):\d+")
_GO_ADDRESS = re.compile(r" \[recovered\]$|^main\.")
_RUST_PANIC = re.compile(r"^thread '[^']*'(?: \(\d+\))? panicked at (?:'(.*)', )?([^\s:]+):\d+:\d+:?$")
_RUST_FRAME = re.compile(r"^\s+\d+: (?:0x[0-9a-f]+ - )?(\S+)")
_RUST_FILE = re.compile(r"^\s+at (\S+?):\d+(?::\d+)?$")
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")


def _go(lines: Sequence[str]) -> ErrorSignature | None:
    if not any(line.startswith("goroutine ") for line in lines):
        return None
    head = next((found for line in lines if (found := _GO_PANIC.match(line))), None)
    if head is None:
        return None
    frames = []
    for line, following in pairwise(lines):
        if (function := _GO_FUNCTION.match(line)) and (file := _GO_FILE.match(following)):
            name = function[1]
            frames.append(_Frame(file[1], name.rpartition("/")[2].partition(".")[2] if "/" in name else name))
    frames = [_Frame(frame.file, _GO_ADDRESS.sub("", frame.function)) for frame in frames if frame.function != "panic"]
    return _signature("go", head[1], _GO_ADDRESS.sub("", head[2]), frames)


def _rust(lines: Sequence[str]) -> ErrorSignature | None:
    for number, line in enumerate(lines):
        if found := _RUST_PANIC.match(line):
            following = lines[number + 1] if number + 1 < len(lines) else ""
            message = found[1] if found[1] is not None else following
            return _signature("rust", "panic", message, _rust_frames(lines[number + 1 :]) or [_Frame(found[2], "")])
    return None


def _rust_frames(lines: Sequence[str]) -> list[_Frame]:
    frames = []
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        if function := _RUST_FRAME.match(line):
            file = _RUST_FILE.match(following)
            frames.append(_Frame(file[1] if file else "", _RUST_HASH.sub("", function[1])))
    return frames


_PYTEST_ERROR = re.compile(
    r"^E {3,}(?:([A-Za-z_][\w.]*(?:Error|Exception|Exit|Failed|Warning))(?:: ?(.*))?|(assert .+))$"
)
_PYTEST_PLACE = re.compile(r"^([\w./\\-]+\.py):\d+: (?:in (\S+)|[A-Z]\w+)?")
_FAILED_TEST = re.compile(
    r"^(?:FAILED|ERROR) ([\w./\\-]+\.py)(?:::(\S+))?(?: - (.*))?$"
    r"|^(\S+\.py::\S+) (?:FAILED|ERROR)\b"
    r"|^\s*--- FAIL: (\S+)"
    r"|^test (\S+) \.\.\. FAILED$"
    r"|^\s*● (.+)$"
    r"|^not ok \d+ -? ?(.+)$"
)
_EXPECTATION = re.compile(r"^\s*(expect\(.*|assertion .*failed.*|Expected.*|AssertionError.*|\S+_test\.go:\d+: .*)$")
_GO_TEST_PLACE = re.compile(r"^\S+_test\.go:\d+: ")
_PARAMETERS = re.compile(r"\[.*\]$")


def _test(lines: Sequence[str]) -> ErrorSignature | None:
    failed = next(((number, found) for number, line in enumerate(lines) if (found := _FAILED_TEST.match(line))), None)
    thrown = next((found for line in lines if (found := _PYTEST_ERROR.match(line))), None)
    if failed is None and thrown is None:
        return None
    places = [_Frame(found[1], found[2] or "") for line in lines if (found := _PYTEST_PLACE.match(line))]
    if failed is not None and failed[1][1]:
        places.insert(0, _Frame(failed[1][1], _PARAMETERS.sub("", (failed[1][2] or "").replace("::", "."))))
    if thrown is not None:
        kind = (thrown[1] or "AssertionError").rpartition(".")[2]
        return _signature("test", kind, thrown[2] or thrown[3] or "", reversed(places))
    return _failed_test(*failed, lines, places) if failed is not None else None


def _failed_test(number: int, found: re.Match[str], lines: Sequence[str], places: Sequence[_Frame]) -> ErrorSignature:
    """Read a failed test of which only a summary is known."""
    if found[3]:
        kind, said = _named_error(found[3]) or ("", found[3])
        return _signature("test", kind, said, reversed(places))
    name = next((part for part in found.groups()[3:] if part), "")
    telling = next((line.strip() for line in lines[number + 1 :] if _EXPECTATION.match(line)), "")
    frames = [_Frame("", name)] if name else reversed(places)
    return _signature("test", "test failure", _GO_TEST_PLACE.sub("", telling) or name, frames)


_COMPILERS = (
    re.compile(r"^(?P<file>[^\s:(]+)\(\d+,\d+\): (?:fatal )?error (?P<code>[A-Z]+\d+): (?P<message>.+)$"),
    re.compile(r"^(?P<file>[^\s:(]+):\d+:\d+ - error (?P<code>[A-Z]+\d+): (?P<message>.+)$"),
    re.compile(
        r"^(?P<file>(?:[A-Za-z]:)?[^\s:(]+):\d+(?::\d+)?: (?:fatal )?error: (?P<message>.+?)(?: \[(?P<code>[\w-]+)\])?$"
    ),
    re.compile(r"^(?P<file>(?:[A-Za-z]:)?[^\s:(]+\.go):\d+:\d+: (?P<message>.+)$"),
    re.compile(r"^(?P<file>(?:[A-Za-z]:)?[^\s:(]+):\d+:\d+: (?P<code>[A-Z]+\d+) (?P<message>.+)$"),
)
_RUSTC = re.compile(r"^error(?:\[(E\d+)\])?: (.+)$")
_RUSTC_PLACE = re.compile(r"^\s*--> ([^\s:]+):\d+:\d+")
_LINKER = re.compile(r"(?:^|: )(undefined reference to .+|cannot find -l\S+|ld: .+|multiple definition of .+)$")


def _compiler(lines: Sequence[str]) -> ErrorSignature | None:
    for number, line in enumerate(lines):
        for pattern in _COMPILERS:
            if found := pattern.match(line):
                groups = found.groupdict()
                return _signature(
                    "compiler", groups.get("code") or "error", found["message"], [_Frame(found["file"], "")]
                )
        if found := _RUSTC.match(line):
            place = next((at for after in lines[number + 1 : number + 4] if (at := _RUSTC_PLACE.match(after))), None)
            if found[1] or place:
                return _signature("compiler", found[1] or "error", found[2], [_Frame(place[1], "")] if place else [])
        if found := _LINKER.search(line):
            return _signature("compiler", "linker", found[1])
    return None


_SURELY_HTTP = (
    re.compile(r"\bHTTP(?:/\d(?:\.\d)?)?[ :]{1,2}(?:error |status )?([45]\d\d)\b[ :,-]*(.*)", re.IGNORECASE),
    re.compile(r"\b([45]\d\d) (?:Client|Server) Error:? ?(.*)"),
    re.compile(r"\bstatus[ _]?code[\"']?[ :=]{1,3}([45]\d\d)\b[ :,\"'}-]*(.*)", re.IGNORECASE),
    re.compile(r"^([45]\d\d)[ :-]{1,3}([A-Z][A-Za-z' -]+.*)$"),
    re.compile(
        r"\b([45]\d\d):? ((?:Bad Request|Unauthorized|Forbidden|Not Found|Method Not Allowed|Conflict|Gone"
        r"|Unprocessable|Too Many Requests|Internal Server Error|Bad Gateway"
        r"|Service Unavailable|Gateway Time-?out)\b.*)"
    ),
)
_LIKELY_HTTP = (*_SURELY_HTTP, re.compile(r"\bstatus[\"']?[ :=]{1,3}([45]\d\d)\b[ :,\"'}-]*(.*)", re.IGNORECASE))
_FOR_URL = re.compile(r" for url: .*")
_EXIT = re.compile(
    r"\b(?:exit(?:ed|s)?(?: with)?(?: (?:exit )?(?:code|status))?|returned non-zero exit status"
    r"|return code|rc(?=[:=]))[ :=]{1,2}(\d{1,3})\b",
    re.I,
)
_VERB = re.compile(
    r"(?:\b(?:fail(?:s|ed)?|end(?:s|ed)?|terminated?|complete[ds]?|finishe[ds]|stopped|died|errored|quit|exit(?:s|ed)?"
    r"|did not complete successfully)"
    r"(?: unsuccessfully)?(?: with(?: an?| the)?)?|\bwith(?: an?| the)?)$",
    re.I,
)
"""Words before an exit status that form a sentence with it."""
_SENTENCE, _CLAUSE = re.compile(r"(?<=[.;])\s+|,\s+|\s+[(\[]|\s+[-–—]\s+"), re.compile(r"(?<=:)\s+")
_AROUND = " \t:;,-–—([{"
_OWN_TEXT = re.compile(r"^(exit \d{1,3}): (.+ exited)$")
"""The text of a signature that only says which command had an exit status."""
_PROGRAM = re.compile(r"([\"'`\[]+)(?:/[\w.-]+)+/(?=[\w.-])")
"""The folder of a program at the beginning of a quoted command."""
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_QUOTATION = re.compile(r"'\[[^\]]*\]'|\"[^\"]*\"|'[^']*'|`[^`]*`|\[[^\]]*\]")
_UNSAID = re.compile(rf"{_QUOTATION.pattern}|\bnpm (?:ERR!|error)")
_MARKS = re.compile(r"[\"'`\[\],]+")
_SAYS_NOTHING = frozenset(
    """an and build by code command complete completed container did ended err error errored exited fail failed failure
    finished has it job non not of on pipeline process program run script shell solve status step subprocess
    successfully task terminated the this to tool unsuccessfully was with zero""".split()
)
"""Words around an exit status that distinguish no failures."""
_COMMANDS = (
    re.compile(r"^(?:/\S*/)?(?:ba|z|da|k|c|tc|fi)?sh: (?:line )?(?:\d+: )?(?P<message>.+)$"),
    re.compile(r"^(?P<kind>curl: \(\d+\)) (?P<message>.+)$"),
    re.compile(r"^npm (?:ERR!|error) code (?P<kind>\w+)$"),
    re.compile(r"^(?P<kind>fatal): (?P<message>.+)$"),
    re.compile(r"^make(?:\[\d+\])?: \*\*\* (?P<message>.+)$"),
    re.compile(
        r"^(?P<message>[\w./-]+: .*(?:command not found|No such file or directory|Permission denied|Is a directory"
        r"|Not a directory"
        r"|cannot access|Operation not permitted|File exists|No space left on device|Device or resource busy"
        r"|Connection refused|Connection timed out|No route to host|Name or service not known).*)$"
    ),
    re.compile(
        r"^(?P<message>(?:Segmentation fault|Killed|Aborted|Bus error|Illegal instruction|Terminated)"
        r"(?: \(core dumped\))?)$"
    ),
    re.compile(r"^'(?P<name>[^']+)' (?P<message>is not recognized as an internal or external command.*)$"),
)


def _http(lines: Sequence[str]) -> ErrorSignature | None:
    answered = next((found for line in lines[:50] if (found := _status(line, _LIKELY_HTTP))), None)
    return _signature("http", *answered) if answered else None


def _status(line: str, patterns: Iterable[re.Pattern[str]]) -> tuple[str, str] | None:
    """Return the status a server answered with, and its message."""
    for pattern in patterns:
        if found := pattern.search(line):
            return f"HTTP {found[1]}", _FOR_URL.sub(" for url: <url>", found[2].strip()) or _before(line, found.start())
    return None


def _before(line: str, end: int) -> str:
    return line[:end].strip(" :-,([{\"'")


def _command(lines: Sequence[str]) -> ErrorSignature | None:
    """Read the failure message of a shell or a well-known command."""
    for line in lines:
        for pattern in _COMMANDS:
            if found := pattern.match(line):
                groups = found.groupdict()
                return _signature("shell", groups.get("kind") or "", groups.get("message") or _npm(lines))
    return None


def _exit(lines: Sequence[str]) -> ErrorSignature | None:
    """Read the exit status of a command without an error message: with its last line, or the command's name."""
    found = next((exited for line in lines if (exited := _exited(line))), None)
    if found is None:
        return None
    kind, about = found
    said = [line for line in lines if not _EXIT.search(line)]
    return _signature("shell", kind, _strip_prefix(_most_informative(said)) or about)


def _exited(line: str) -> tuple[str, str] | None:
    """Return kind and message of a line with nothing but an exit status and perhaps its command."""
    found = _EXIT.search(line)
    if found is None or found[1] == "0":
        return None
    if own := _OWN_TEXT.match(line):
        return own[1], own[2]
    if _without_status(line) != line or _is_informative(line[found.end() :]):
        return None
    command = _command_of(_strip_prefix(line[: found.start()]).strip(_AROUND))
    return f"exit {found[1]}", f"{command} exited" if command else ""


def _command_of(about: str) -> str:
    """Return a command without its quotation marks, so that it is not masked; empty if none is named."""
    if not _is_informative(about) and not any(map(_LETTERS.search, _QUOTATION.findall(about.lower()))):
        return ""
    opened = _MARKS.sub(" ", _PROGRAM.sub(r"\1", _VERB.sub("", about), count=1))
    return _SPACES.sub(" ", opened).strip(f"{_AROUND} ")


def _without_statuses(lines: list[str]) -> list[str]:
    """Remove exit statuses from printed lines, if the rest says what happened."""
    bare = [line if line.isspace() or not _EXIT.search(line) else _without_status(line) for line in lines]
    spoken = any(
        _TROUBLE.search(line) and _is_informative(_strip_prefix(line)) for line in bare if not _EXIT.search(line)
    )
    return [line for line in bare if _exited(line) is None] if spoken else bare


def _without_status(message: str) -> str:
    """Remove an exit status and the words around it from a message, if the rest says what happened."""
    found = _EXIT.search(message)
    if found is None or found[1] == "0" or "\n" in message or _OWN_TEXT.match(message):
        return message
    before, behind = message[: found.start()], message[found.end() :].lstrip()
    after = behind.lstrip(" \t:;,.-–—…)]}")
    said = _before_status(before, found[0])
    if not _is_informative(after):
        return said or message
    if said:
        return f"{said} {after}"
    return after if after != behind or not _strip_prefix(before).strip(_AROUND) else message


def _before_status(before: str, status: str) -> str:
    """Return what precedes an exit status, without the sentence that only says which command had it."""
    before = before.rstrip(_AROUND)
    verb = _VERB.search(before)
    sentence = status.lower().startswith(("exited", "exits", "returned"))
    sentence = sentence or (verb is not None and not verb[0].lower().startswith("with"))
    if verb and not sentence:
        before = before[: verb.start()]
    end = _end_of_sentences(before) if sentence else _end_of_information(before)
    rest = before[:end].rstrip(f"{_AROUND}.")
    return rest if _is_informative(_strip_prefix(rest)) else ""


def _end_of_sentences(text: str) -> int:
    """Return where the last sentence of a text begins; a colon counts only if what follows is uninformative."""
    plain = _unquoted(text)
    sentence = max((found.start() for found in _SENTENCE.finditer(plain)), default=0)
    clause = max(_CLAUSE.finditer(plain), key=re.Match.start, default=None)
    return sentence if clause is None or _is_informative(plain[clause.end() :]) else max(sentence, clause.start())


def _end_of_information(text: str) -> int:
    """Return the place after which the clauses of a text are uninformative."""
    plain = _unquoted(text)
    end = behind = len(plain)
    bounds = sorted(found.span() for boundary in (_SENTENCE, _CLAUSE) for found in boundary.finditer(plain))
    for start, stop in reversed(bounds):
        if _is_informative(plain[stop:behind]):
            break
        end = behind = start
    return end


def _unquoted(text: str) -> str:
    """Blank quoted parts, so that no sentence ends there."""
    return _QUOTATION.sub(lambda quoted: "_" * len(quoted[0]), text)


def _is_informative(text: str) -> bool:
    """Return whether a text says more than that a command failed."""
    words = set(_LETTERS.findall(_UNSAID.sub(" ", text).lower()))
    return bool(words - _SAYS_NOTHING)


def _exit_status(lines: Sequence[str]) -> str:
    return next((found[1] for line in lines if (found := _EXIT.search(line))), "")


def _npm(lines: Sequence[str]) -> str:
    said = [line.partition("npm ERR! ")[2] or line.partition("npm error ")[2] for line in lines]
    return next((line for line in said if line and not line.startswith(("code ", "path ", "syscall ", "errno "))), "")


_NAMED = re.compile(
    r"(?:^|[\s:(\[\"'])((?:[A-Za-z_][\w.$]{0,150})?(?:Error|Exception)|[A-Za-z_][\w.$]{0,150}(?:Warning|Fault|Failure"
    r"|Interrupt|Exit|Timeout|Panic|Err|Invalid|Failed|NotFound|Denied|Exceeded|Rejected|Unavailable)):\s?(.*)$"
)
_BARE_NAME = re.compile(r"^([A-Za-z_][\w.$]{0,150}(?:Error|Exception|Interrupt|Exit|Warning|Iteration))\.?$")
_JS_WORDS = re.compile(
    r"is not a function|Cannot read propert|is not iterable|Cannot access .* before init|Unexpected token"
)
_JAVA_PACKAGES = ("java.", "javax.", "org.", "com.", "io.", "net.", "kotlin.", "scala.")


def _one_line(lines: Sequence[str]) -> ErrorSignature | None:
    """Read `SomeError: what happened`, anywhere in a line."""
    for number, line in enumerate(lines):
        if found := _NAMED.search(line):
            if answered := _status(line, _SURELY_HTTP):
                return _signature("http", *answered)
            name, message = _named_error(line) or ("", "")
            rest = lines[number + 1 :]
            whole = _full_message(message, rest) if found.start() == 0 and not any(lines[:number]) else message
            return _raised(_language(found[1], message), name, whole, rest)
        if found := _BARE_NAME.match(line.strip()):
            return _signature(_language(found[1], ""), found[1].rpartition(".")[2], "")
        if found := _VALIDATION.match(line):
            return _raised("python", "", line, lines[number + 1 :])
    return None


def _named_error(line: str) -> tuple[str, str] | None:
    """Return the name of an error and its message; a warning about an unhandled error stands for that error."""
    found = _NAMED.search(line)
    if found is None:
        return None
    inner = _NAMED.match(found[2]) if found[1].endswith("Warning") else None
    name, message = (inner or found).groups()
    return name.rpartition(".")[2], message


def _full_message(message: str, rest: Sequence[str]) -> str:
    """Return a message over several lines as its first and last line."""
    last = next((line.strip() for line in reversed(rest) if line.strip()), "")
    unfinished = message and message[-1] not in ".!?:;)" and last and not _VALIDATION.match(message)
    return f"{message} … {last}" if unfinished else message


def _language(name: str, message: str) -> str:
    if name.startswith(_JAVA_PACKAGES):
        return "java"
    if name in ("Error", "AxiosError", "ReferenceError", "RangeError", "URIError", "EvalError") or _JS_WORDS.search(
        message
    ):
        return "javascript"
    return "python"


_JSON_MESSAGES = ("error", "message", "detail", "msg", "error_description", "error_message", "reason", "title")
_JSON_CODES = ("status", "status_code", "statusCode", "code")


def _json(lines: Sequence[str]) -> ErrorSignature | None:
    """Read the error of an API response in JSON."""
    text = "\n".join(lines).strip()
    if not text.startswith("{") or not text.endswith("}"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    for _ in range(4):
        if not isinstance(value, dict):
            return None
        message = next((value[name] for name in _JSON_MESSAGES if value.get(name)), None)
        code = next((value[name] for name in _JSON_CODES if value.get(name)), None)
        if isinstance(message, str):
            status = isinstance(code, int) and 400 <= code < 600
            if status or isinstance(code, str):
                return _signature("http", f"HTTP {code}" if status else str(code)[:100], message)
            return _of_text(message) if not message.lstrip().startswith("{") else None
        value = message
    return None


_PREFIX = re.compile(
    r"^(?:\[?(?:\d{4}[-/]\d\d[-/]\d\d|[A-Z][a-z]{2} [ \d]\d)[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"\]?[ ,|:-]*)?"
    r"(?:[\[(]?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|CRITICAL|FATAL|SEVERE|ALERT|EMERG|PANIC)"
    r"[\])]?(?![\w])[ |:-]*|(?:[Ee]rror|[Ww]arning|[Ff]atal): )?",
)
_TROUBLE = re.compile(
    r"error|fatal|fail|exception|panic|critical|denied|refused|timed? ?out|not found|cannot|can't|could not|unable"
    r"|invalid|abort|crash"
    r"|no such|missing|unexpected|unknown|severe|reject",
    re.IGNORECASE,
)


def _log(lines: Sequence[str]) -> ErrorSignature:
    return _signature("log", "", _strip_prefix(_most_informative(lines)))


def _most_informative(lines: Iterable[str]) -> str:
    """Return the first line about trouble, else the last line; empty if there is none."""
    said = [line.strip() for line in lines if line.strip()]
    return next((line for line in said if _TROUBLE.search(line)), said[-1] if said else "")


def _strip_prefix(line: str) -> str:
    """Return a log line without time and level, if anything remains."""
    return _PREFIX.sub("", line.strip(), count=1) or line


def _singular(token: str) -> str:
    plural = len(token) > 3 and token.isalpha() and token.islower() and token[-1] == "s" and token[-2] not in "sui"
    return token[:-1] if plural else token


_Reader = Callable[[Sequence[str]], ErrorSignature | None]
_READERS: tuple[_Reader, ...] = (
    _json,
    _python,
    _go,
    _rust,
    _java,
    _javascript,
    _test,
    _compiler,
    _one_line,
)
_PRINTED: tuple[_Reader, ...] = (_command, _http, _exit)
"""Readers for the output of a program that raised nothing."""
