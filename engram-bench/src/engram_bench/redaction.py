"""Measure redaction on labelled secrets and personal data, and on texts without any, beside detect-secrets."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from engram.errors import InvalidInput
from engram.ports import secrets_among
from engram.privacy import SecretRedactor
from engram.privacy.rules import Span, rule_set
from engram_bench import ProgressCallback, no_progress
from engram_bench.data import locomo, longmemeval, unpacked
from engram_bench.sensitive import CONTEXTS, PROVIDERS, Label, Sample, look_alikes, personal, secrets, source_lines

FORMAT = 'a line is {"text": "…", "spans": [{"type": "EMAIL_ADDRESS", "start": 3, "end": 20}]}'
ENGRAM, OTHER = "engram", "detect-secrets"
SEED, ROUNDS, SOURCE_LINES = 20260211, 5, 10_000
TYPES: Mapping[str, str] = {
    "CREDIT_CARD": "card",
    "EMAIL_ADDRESS": "email",
    "IBAN_CODE": "iban",
    "IP_ADDRESS": "ip",
    "PHONE_NUMBER": "phone",
    "US_SSN": "us-ssn",
}
"""Types of a labelled file that patterns can find; names, places and dates need a model."""
_SHORT, _HALF = 300, 0.5


class _SpanRow(BaseModel):
    model_config = ConfigDict(extra="ignore")

    type: str
    start: int
    end: int


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore")

    text: str
    spans: tuple[_SpanRow, ...] = ()


def read_spans(path: Path) -> list[Sample]:
    """Read the labelled texts of a JSONL file. Raises `NotFound` or `InvalidInput`."""
    samples = []
    for number, line in enumerate(_decoded(path).split("\n"), start=1):
        if line.strip():
            try:
                row = _Row.model_validate_json(line)
            except ValidationError:
                raise InvalidInput(f"{path.name}, line {number}, cannot be used; {FORMAT}") from None
            labels = tuple(Label(s.start, s.end, f"personal:{TYPES.get(s.type, s.type)}") for s in row.spans)
            samples.append(Sample(row.text, labels, path.name))
    if not samples:
        raise InvalidInput(f"{path.name} holds no texts; {FORMAT}")
    return samples


def read_clean(path: Path) -> list[Sample]:
    """Read the texts of LoCoMo, LongMemEval, JSON lines with a `text`, or any file by line. Raises `NotFound`."""
    raw = _decoded(path)
    try:
        value = json.loads(raw)
    except ValueError:
        value = None
    if value is not None:
        try:
            found = locomo(value, path.name) if _is_locomo(value) else longmemeval(value, path.name, single_store=True)
        except InvalidInput:
            raise InvalidInput(
                f"{path.name} is JSON, but neither LoCoMo nor LongMemEval; give text, a line each"
            ) from None
        return [Sample(turn.text, (), path.name) for chat in found.conversations for turn in chat.turns]
    return [Sample(_line(line), (), path.name) for line in raw.split("\n") if line.strip()]


def _is_locomo(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "conversation" in value[0]


def _decoded(path: Path) -> str:
    try:
        return unpacked(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path.name} is not UTF-8 ({error}); convert it") from None


def _line(line: str) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        return line
    return value["text"] if isinstance(value, dict) and isinstance(value.get("text"), str) else line


def run(
    data: Sequence[Sample] = (),
    clean: Sequence[Sample] = (),
    *,
    seed: int = SEED,
    rounds: int = ROUNDS,
    on_progress: ProgressCallback = no_progress,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the report, and every text with a miss or a false alarm.

    Engram has found a secret if all of it is gone; detect-secrets, if anything it names overlaps it. Personal data is
    found if half of it is covered.
    """
    made = [*secrets(seed, rounds), *personal(seed, rounds)]
    nothing = [*look_alikes(seed, 20 * rounds), *source_lines(SOURCE_LINES), *clean]
    other = detect_secrets()
    finds = _finds([*made, *data, *nothing], on_progress)
    wrong: list[dict[str, Any]] = []
    asked = [sample for sample in made if sample.labels[0].type.partition(":")[0] != "personal"]
    report = {
        "rules": len(rule_set().rules),
        "seed": seed,
        "formats": len(PROVIDERS),
        "contexts": list(CONTEXTS),
        "secrets": _secrets(asked, finds, other, wrong),
        "personal": {
            "generated": _personal([s for s in made if s.labels[0].type.startswith("personal:")], finds, wrong),
            **({"data": _personal(data, finds, wrong)} if data else {}),
        },
        "clean": _clean(nothing, finds, other, wrong),
        "speed": _speed([s for s in [*made, *nothing] if len(s.text) <= _SHORT], other),
        "skipped": []
        if other
        else ["detect-secrets is not installed, so it is not beside it; `pip install detect-secrets`"],
    }
    return report, wrong


def write(path: Path, report: Mapping[str, Any], wrong: Iterable[Mapping[str, Any]]) -> None:
    """Write the report, then a line for every text that went wrong, as JSON lines."""
    lines = [json.dumps(each, ensure_ascii=False) for each in (report, *wrong)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


Finds = dict[str, list[tuple[int, int, str]]]
Other = Callable[[Sequence[str]], list[list[str]]]


def _finds(samples: Sequence[Sample], on_progress: ProgressCallback) -> Finds:
    """Return what our rules find in each text, in characters."""
    result: Finds = {}
    for number, sample in enumerate(samples):
        if sample.text not in result:
            result[sample.text] = [_characters(sample.text, span) for span in rule_set().find(sample.text.encode())]
        if number % 1000 == 0:
            on_progress(number, len(samples))
    return result


def _characters(text: str, span: Span) -> tuple[int, int, str]:
    data = text.encode()
    start = len(data[: span.start].decode())
    return start, start + len(data[span.start : span.end].decode()), span.kind.label


def _secrets(
    samples: Sequence[Sample], finds: Finds, other: Other | None, wrong: list[dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    theirs = other([sample.text for sample in samples]) if other else [[] for _ in samples]
    asked, ours, named, extra = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for sample, told in zip(samples, theirs, strict=True):
        label = sample.labels[0]
        family, _, name = label.type.partition(":")
        groups = {"provider formats": (name, sample.source), "known by place": (name,)}[_FAMILIES[family]]
        whole = any(start <= label.start and end >= label.end for start, end, _ in finds[sample.text])
        value = sample.text[label.start : label.end]
        hit = any(secret in value or value in secret for secret in told)
        beside = sum(end <= label.start or start >= label.end for start, end, _ in finds[sample.text])
        for group in (_FAMILIES[family], *(f"{_FAMILIES[family]}/{each}" for each in groups)):
            asked[group] += 1
            ours[group] += whole
            named[group] += hit
            extra[group] += beside
        if not whole or beside:
            wrong.append({"what": "missed" if not whole else "beside", "type": label.type, "text": sample.text})
    return {
        group: {
            "texts": asked[group],
            "recall": ours[group] / asked[group],
            "precision": _share(ours[group], ours[group] + extra[group]),
            OTHER: named[group] / asked[group] if other else None,
        }
        for group in asked
    }


_FAMILIES = {"provider": "provider formats", "place": "known by place"}


def _personal(samples: Sequence[Sample], finds: Finds, wrong: list[dict[str, Any]]) -> dict[str, Any]:
    """Return recall and precision per type, and the share of other texts with a false alarm."""
    labelled, covered, told, right, empty, alarms = (Counter[str]() for _ in range(6))
    known = {f"personal:{name}" for name in TYPES.values()} | {rule.kind.label for rule in rule_set().rules}
    for sample in samples:
        labels = [label for label in sample.labels if label.type in known]
        found = [find for find in finds[sample.text] if find[2].startswith("personal:")]
        for label in labels:
            best = max((_overlap(find, label) for find in found), default=0)
            labelled[label.type] += 1
            covered[label.type] += best >= _HALF * (label.end - label.start)
            if best < _HALF * (label.end - label.start):
                wrong.append({"what": "missed", "type": label.type, "text": sample.text})
        for find in found:
            told[find[2]] += 1
            right[find[2]] += any(_overlap(find, label) > 0 for label in labels)
        if not labels:
            empty["texts"] += 1
            alarms["texts"] += bool(found)
        if any(all(_overlap(find, label) <= 0 for label in labels) for find in found):
            wrong.append({"what": "false alarm", "type": ", ".join(find[2] for find in found), "text": sample.text})
    types = {
        name: {
            "labelled": labelled[name],
            "recall": _share(covered[name], labelled[name]),
            "precision": _share(right[name], told[name]),
        }
        for name in sorted({*labelled, *told})
    }
    whole = {
        "labelled": labelled.total(),
        "recall": _share(covered.total(), labelled.total()),
        "precision": _share(right.total(), told.total()),
        "texts_without": empty["texts"],
        "false_alarms": _share(alarms["texts"], empty["texts"]),
    }
    return {"all": whole, "types": types}


def _overlap(find: tuple[int, int, str], label: Label) -> int:
    return min(find[1], label.end) - max(find[0], label.start)


def _clean(
    samples: Sequence[Sample], finds: Finds, other: Other | None, wrong: list[dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    theirs = other([sample.text for sample in samples]) if other else [[] for _ in samples]
    texts, secret, private, flagged = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for sample, told in zip(samples, theirs, strict=True):
        found = [name for _, _, name in finds[sample.text]]
        for source in (sample.source, "all"):
            texts[source] += 1
            secret[source] += bool(secrets_among(found))
            private[source] += len(secrets_among(found)) < len(found)
            flagged[source] += bool(told)
        if found:
            wrong.append({"what": "false alarm", "type": ", ".join(found), "text": sample.text})
    return {
        source: {
            "texts": texts[source],
            "secrets": secret[source] / texts[source],
            "personal": private[source] / texts[source],
            OTHER: flagged[source] / texts[source] if other else None,
        }
        for source in texts
    }


def _speed(samples: Sequence[Sample], other: Other | None) -> dict[str, Any]:
    """Return short texts per second of processor time, with findings and without; the best of three runs."""
    result: dict[str, Any] = {}
    redactor = SecretRedactor(key=b"a key for measuring")
    for name, texts in (
        ("with a find", [sample.text for sample in samples if sample.labels]),
        ("without", [sample.text for sample in samples if not sample.labels]),
    ):
        ours = [_rate(redactor.clean, texts[:5000]) for _ in range(3)]
        theirs = _rate(other, texts[:2000]) if other else None
        result[name] = {ENGRAM: round(max(ours)), OTHER: None if theirs is None else round(theirs)}
    return result


def _rate(clean: Callable[[Sequence[str]], object], texts: Sequence[str]) -> float:
    start = time.process_time()
    clean(texts)
    return len(texts) / max(time.process_time() - start, 1e-9)


def detect_secrets() -> Other | None:
    """Return detect-secrets with its default settings as a function; `None` if it is not installed."""
    try:
        scan = import_module("detect_secrets.core.scan")
        settings = import_module("detect_secrets.settings")
    except ImportError:
        return None

    def find(texts: Sequence[str]) -> list[list[str]]:
        # Scan a file of all texts: the scan of single lines takes every word for a secret.
        owner, lines = list[int](), list[str]()
        for number, text in enumerate(texts):
            parts = [" ".join(part.splitlines()) for part in text.split("\n")]
            owner += [number] * len(parts)
            lines += parts
        found: list[list[str]] = [[] for _ in texts]
        with tempfile.TemporaryDirectory(prefix="engram-bench-") as folder, settings.default_settings():
            file = Path(folder) / "texts.txt"
            file.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="replace")
            for secret in scan.scan_file(str(file)):
                if secret.secret_value:
                    found[owner[secret.line_number - 1]].append(secret.secret_value)
        return found

    return find


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
