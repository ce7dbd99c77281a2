"""Group labelled log lines or tool errors, beside drain3 if it is installed, no grouping, and chance."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from engram.errors import InvalidInput
from engram.learning.failures.log_templates import DEFAULT, GroupingLimits, TemplateTree, group_lines
from engram.learning.failures.signatures import extract_error_signature
from engram_bench import ProgressCallback, no_progress
from engram_bench.data import unpacked
from engram_bench.metrics import SEED

FORMAT = 'a line is {"system", "text", "group"} for logs or {"suite" or "tool", "error", "group"} for errors of tools'
ENGRAM, INCREMENTAL, DRAIN, ALONE, CHANCE = "engram", "engram, line by line", "drain3", "no grouping", "placebo"
LEFT_OUT = "engram, system left out"
"""Thresholds chosen on the other systems."""
CHOICES = [DEFAULT, *(GroupingLimits(enough, fewest) for enough in (16, 20, 24, 32) for fewest in (2, 3, 4))]
TOOLS = "tools"
"""The one system of all tool errors: the same error means the same in every suite."""
_FEWEST_SYSTEMS = 3

Grouping = Callable[[Sequence[str]], list[int]]


@dataclass(frozen=True, slots=True)
class LabelledLine:
    """A text to group within its system; unlabelled lines are grouped but not scored."""

    system: str
    text: str
    group: str | None
    tool: bool = False


@dataclass(frozen=True, slots=True)
class GroupingScore:
    """The quality of the grouping of one system's labelled lines; tool errors count once per distinct text."""

    arm: str
    system: str
    lines: int
    """Lines that were scored."""
    accuracy: float
    """Share of lines whose group has exactly the lines of their true group."""
    f1: float
    """F1 of the pairs grouped together."""
    groups: int
    true_groups: int


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore")

    system: str | None = None
    suite: str | None = None
    tool: str | None = None
    text: str | None = None
    error: str | None = None
    group: str | int | None = None


def read_lines(path: Path) -> tuple[list[LabelledLine], str]:
    """Read the lines of a JSONL file, with the hash of its text. Raises `NotFound` or `InvalidInput`."""
    raw = unpacked(path)
    try:
        rows = raw.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path.name} is not UTF-8 ({error}); {FORMAT}") from None
    lines = [_line(row, f"{path.name}, line {number}") for number, row in enumerate(rows, start=1) if row.strip()]
    if not lines:
        raise InvalidInput(f"{path.name} holds no lines; {FORMAT}")
    return lines, hashlib.sha256(raw).hexdigest()


def _line(row: str, where: str) -> LabelledLine:
    try:
        found = _Row.model_validate(json.loads(row))
    except (ValidationError, ValueError, RecursionError):
        raise InvalidInput(f"{where} is not such a line; {FORMAT}") from None
    group = None if found.group is None else str(found.group)
    if found.error is not None:
        return LabelledLine(TOOLS, found.error, group, tool=True)
    if found.text is None:
        raise InvalidInput(f"{where} has neither a text nor an error; {FORMAT}")
    return LabelledLine(found.system or "", found.text, group)


def run(
    lines: Sequence[LabelledLine], *, on_progress: ProgressCallback = no_progress
) -> tuple[dict[str, Any], list[int]]:
    """Return the report, and the group of each line in input order; groups never span systems."""
    drain = drain3_grouping()
    arms: dict[str, Grouping] = {ENGRAM: group_lines, INCREMENTAL: one_by_one}
    if drain is not None:
        arms[DRAIN] = drain
    systems = list(dict.fromkeys(line.system for line in lines))
    total, done = len(systems) * len(arms), 0
    scores: list[GroupingScore] = []
    predicted = [0] * len(lines)
    used = 0
    for system in systems:
        places = [place for place, line in enumerate(lines) if line.system == system]
        members = [lines[place] for place in places]
        found: dict[str, list[int]] = {}
        for name, grouping in arms.items():
            on_progress(done, total, f"{name}, {system}")
            found[name] = grouping(_texts(members, raw=name == DRAIN))
            done += 1
        texts: dict[str, int] = {}
        found[ALONE] = [texts.setdefault(line.text, len(texts)) for line in members]
        found[CHANCE] = shuffled(found[ENGRAM], Random(SEED))  # noqa: S311
        scores += [score(name, system, members, groups) for name, groups in found.items()]
        for place, group in zip(places, found[ENGRAM], strict=True):
            predicted[place] = used + group
        used += max(found[ENGRAM], default=-1) + 1
    scores += leave_one_out(lines)
    on_progress(total, total, "done")
    return report(scores, len(lines), drain is not None), predicted


def leave_one_out(lines: Sequence[LabelledLine]) -> list[GroupingScore]:
    """Score each log system with the thresholds that are best on the others; empty with fewer than three systems."""
    systems: dict[str, list[LabelledLine]] = {}
    for line in lines:
        if not line.tool:
            systems.setdefault(line.system, []).append(line)
    if len(systems) < _FEWEST_SYSTEMS:
        return []
    found = {
        limits: {
            system: score(LEFT_OUT, system, own, group_lines([line.text for line in own], limits))
            for system, own in systems.items()
        }
        for limits in CHOICES
    }

    def elsewhere(limits: GroupingLimits, left_out: str) -> float:
        return sum(one.accuracy for system, one in found[limits].items() if system != left_out)

    return [found[max(found, key=lambda one: elsewhere(one, system))][system] for system in systems]


def _texts(lines: Sequence[LabelledLine], *, raw: bool) -> list[str]:
    """Return what is grouped: the outline of an error's signature, or a log line as it is."""
    return [line.text if raw or not line.tool else extract_error_signature(line.text).outline for line in lines]


def score(arm: str, system: str, lines: Sequence[LabelledLine], groups: Sequence[int]) -> GroupingScore:
    """Score the grouping of one system."""
    kept: dict[Hashable, tuple[int, str]] = {}
    for place, (line, group) in enumerate(zip(lines, groups, strict=True)):
        if line.group is not None:
            kept.setdefault(line.text if line.tool else place, (group, line.group))
    found, truth = [group for group, _ in kept.values()], [label for _, label in kept.values()]
    return GroupingScore(
        arm=arm,
        system=system,
        lines=len(kept),
        accuracy=grouping_accuracy(found, truth),
        f1=pairwise_f1(found, truth),
        groups=len(set(found)),
        true_groups=len(set(truth)),
    )


def grouping_accuracy(found: Sequence[Hashable], truth: Sequence[Hashable]) -> float:
    """Return the share of lines whose group has exactly the lines of their true group; 1 without lines."""
    if not found:
        return 1.0
    sizes, true_sizes, both = Counter(found), Counter(truth), Counter(zip(found, truth, strict=True))
    right = sum(number for (one, other), number in both.items() if sizes[one] == number == true_sizes[other])
    return right / len(found)


def pairwise_f1(found: Sequence[Hashable], truth: Sequence[Hashable]) -> float:
    """Return the F1 of pairs that are grouped together; 1 if there are no pairs."""
    both = _pairs(Counter(zip(found, truth, strict=True)))
    either = _pairs(Counter(found)) + _pairs(Counter(truth))
    return 2 * both / either if either else 1.0


def _pairs(sizes: Counter[Any]) -> int:
    return sum(number * (number - 1) // 2 for number in sizes.values())


def one_by_one(texts: Sequence[str]) -> list[int]:
    """Group lines in the order they come, without seeing later ones; merged groups count as one."""
    tree = TemplateTree()
    given = [tree.add(text) for text in texts]
    return [tree.current(group) for group in given]


def shuffled(groups: Sequence[int], random: Random) -> list[int]:
    """Return groups of the same sizes, assigned at random."""
    return random.sample(list(groups), len(groups))


def drain3_grouping() -> Grouping | None:
    """Return Drain with its usual masks; `None` if drain3 is not installed."""
    try:
        drain3 = import_module("drain3")
        masking = import_module("drain3.masking")
        configuration = import_module("drain3.template_miner_config")
    except ImportError:
        return None
    masks = {
        "ID": r"((?<=[^A-Za-z0-9])|^)(([0-9a-f]{2,}:){3,}([0-9a-f]{2,}))((?=[^A-Za-z0-9])|$)",
        "IP": r"((?<=[^A-Za-z0-9])|^)(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})((?=[^A-Za-z0-9])|$)",
        "SEQ": r"((?<=[^A-Za-z0-9])|^)([0-9a-f]{6,} ?){3,}((?=[^A-Za-z0-9])|$)",
        "HEX": r"((?<=[^A-Za-z0-9])|^)(0x[a-fA-F0-9]+)((?=[^A-Za-z0-9])|$)",
        "NUM": r"((?<=[^A-Za-z0-9])|^)([\-\+]?\d+)((?=[^A-Za-z0-9])|$)",
    }

    def grouping(texts: Sequence[str]) -> list[int]:
        config = configuration.TemplateMinerConfig()
        config.masking_instructions = [masking.MaskingInstruction(pattern, name) for name, pattern in masks.items()]
        miner = drain3.TemplateMiner(config=config)
        return [int(miner.add_log_message(text)["cluster_id"]) for text in texts]

    return grouping


def report(scores: Sequence[GroupingScore], lines: int, with_drain: bool) -> dict[str, Any]:
    """Return the scores by arm and system, and their means, as JSON."""
    arms = list(dict.fromkeys(one.arm for one in scores))
    scored = [one for one in scores if one.lines]
    return {
        "benchmark": "grouping",
        "lines": lines,
        "scored": sum(one.lines for one in scores if one.arm == ENGRAM),
        "systems": len({one.system for one in scored}),
        "results": [
            {
                "arm": one.arm,
                "system": one.system,
                "lines": one.lines,
                "accuracy": one.accuracy,
                "f1": one.f1,
                "groups": one.groups,
                "true_groups": one.true_groups,
            }
            for one in scored
        ],
        "means": [_mean(arm, [one for one in scored if one.arm == arm]) for arm in arms],
        "skipped": [] if with_drain else ["drain3 is left out: it is not installed; `pip install drain3` gets it"],
    }


def _mean(arm: str, scores: Sequence[GroupingScore]) -> dict[str, Any]:
    count = len(scores)
    return {
        "arm": arm,
        "accuracy": sum(one.accuracy for one in scores) / count if count else None,
        "f1": sum(one.f1 for one in scores) / count if count else None,
    }
