"""Measure whether checks prevent failures: a simulated agent with checks, without, and with shuffled checks.

The world. There are contexts, each with a few actions an agent may take there: command lines, tool calls, phrases, some
with values that change. In most contexts one action is broken: it fails nearly always, with an error of its own type.
Every action also fails occasionally at random. The world drifts: after some time the broken action is fixed without
notice, and another one in that context breaks. The same context is worded in several ways.

The agent wants an action by fixed preferences and does not learn. With checks it asks before it acts: what is blocked
it does not do, a warning it mostly heeds, and then tries the suggested remedy, or its next preference. All arms meet
the same contexts, preferences and random draws, so that the outcome of every refused action is known.

A repeated failure is one of a cause (a broken action in a context, until it is fixed) that occurred before in this run.
A false block is a refused action, blocked or warned against, that would have succeeded. The placebo asks the same
recogniser about another action in another context, to separate refusing as such from preventing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

import numpy as np

from engram.learning.actions import parsing as forms
from engram.learning.actions.history import ActionHistory, SituationView
from engram.learning.actions.parsing import ParsedAction, ParsedContext
from engram.learning.failures.recognizer import FailureEvent, PatternRecognizer
from engram.learning.prevention.verdicts import SETTINGS, VerdictSettings, check, is_trial
from engram.model.failure import Verdict
from engram_bench import ProgressCallback, no_progress
from engram_bench.metrics import Estimate, bootstrap
from engram_bench.synthetic import word

START = datetime(2026, 1, 1, tzinfo=UTC)
SEEDS = 30
Arm = Literal["without", "checks", "placebo"]
ARMS: tuple[Arm, ...] = ("without", "checks", "placebo")

_VERBS = ("deploy", "migrate", "test", "release", "configure", "debug")
_THINGS = ("the api", "the worker", "the web client", "the billing service", "the search index")
_PLACES = ("in staging", "in production", "in CI", "on a developer machine")
_FILLERS = ("for ticket {}", "after commit {}", "again, run {}", "now", "as asked by the team")
_ACTIONS = (
    "npm install {name}",
    "npm ci",
    "npm test -- --shard {n}",
    "pip install -r {path}",
    "python -m pytest {path}",
    "docker build -t app:{n} .",
    "docker compose up -d",
    "docker compose down",
    "kubectl apply -f {path}",
    "kubectl rollout restart deployment/{name}",
    "git push origin {name}",
    "git push --force",
    "make release",
    "make test",
    "terraform apply -auto-approve",
    "curl -s https://api.example.com/{n}",
    "read_channel(name='{name}')",
    "send_message(channel='{name}', text='done')",
    "query_database(table='{name}', limit={n})",
    "http_get(url='https://example.com/{n}')",
    "retry-with-backoff",
    "retry-at-once",
    "increase-timeout",
    "clear the cache and try again",
    "restart the service with {n} workers",
    "ask a colleague for credentials",
)
_ERRORS = (
    "TimeoutError: connect to 10.0.{n}.7:5432 timed out after {n}s",
    "PermissionError: [Errno 13] Permission denied: '/srv/{name}/{n}'",
    "npm ERR! network request to https://registry.example.com/{name} failed, reason: socket hang up",
    "ModuleNotFoundError: No module named '{name}'",
    "HTTP 503 Service Unavailable: upstream {name} did not answer",
    "fatal: unable to access remote '{name}': could not resolve host",
    "ValueError: channel {name} does not exist",
    "panic: runtime error: index out of range [{n}] with length {n}",
    "Error: ENOSPC: no space left on device, write",
    "AssertionError: expected {n} rows, found {n}",
)
_RANDOM_ERRORS = (
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "HTTP 429 Too Many Requests: retry after {n} seconds",
    "OSError: [Errno 5] Input/output error",
    "TimeoutError: the operation took longer than {n} ms",
)


@dataclass(frozen=True, slots=True)
class PreventionWorld:
    """Parameters of the simulated world."""

    contexts: int = 8
    actions: int = 5
    days: int = 60
    visits: int = 40
    """Tasks per day, over all contexts."""
    broken: float = 0.9
    """Share of contexts with a broken action."""
    severity: float = 0.97
    """Failure rate of a broken action."""
    noise: float = 0.02
    """Failure rate of any action, at random."""
    lifetime: float = 60.0
    """Mean number of days until a broken action is fixed and another breaks."""
    heeds: float = 0.9
    """Share of warnings that the agent heeds."""
    values: float = 0.3
    """Share of actions with another value than usual."""
    wording: float = 0.3
    """Share of tasks whose context has additional words."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A broken action in a context, from one day to another."""

    action: int
    error: str
    since: float
    until: float


class Task(NamedTuple):
    """One task: its context, the agent's preferences in order, and the random draws that all arms share."""

    step: int
    at: datetime
    context: int
    wishes: tuple[int, ...]
    words: str
    fails: tuple[bool, ...]
    causes: tuple[Cause | None, ...]
    heeds: tuple[bool, ...]


@dataclass(slots=True)
class ArmCounts:
    """Counts of one arm in one run."""

    tasks: int = 0
    done: int = 0
    failures: int = 0
    first: int = 0
    repeated: int = 0
    idle: int = 0
    asked: int = 0
    asked_good: int = 0
    refused: int = 0
    refused_good: int = 0
    refused_whole: int = 0
    """Refusals of actions that were not broken at the time."""


@dataclass(frozen=True, slots=True)
class PreventionResult:
    """The effect of checks in one world, over seeds: means with 95% intervals."""

    world: PreventionWorld
    seeds: int
    repeated: Mapping[str, Estimate]
    """Repeated failures per run, by arm."""
    success: Mapping[str, Estimate]
    """Share of tasks that succeeded, by arm."""
    reduction: Estimate
    """Share of repeated failures that checks prevented."""
    placebo: Estimate
    """Share of repeated failures that shuffled checks prevented."""
    false_blocks: Estimate
    """Share refused of the actions that would have succeeded: the strict reading."""
    false_of_all: Estimate
    """Share of all actions asked about that were refused and would have succeeded."""
    needless: Estimate
    """Share of all actions asked about that were refused although not broken."""
    false_among_refused: Estimate
    """Share of refusals of actions that would have succeeded."""
    rows: tuple[Mapping[str, float], ...] = ()
    """One per seed."""


class Simulation:
    """One run of the world: everything but the agent's choices, drawn in advance."""

    def __init__(self, world: PreventionWorld, seed: int) -> None:
        self.world = world
        self._dice = random.Random(f"prevention {seed}")  # noqa: S311 - a simulation
        every = [(verb, thing, place) for verb in _VERBS for thing in _THINGS for place in _PLACES]
        self.places = self._dice.sample(every, world.contexts)
        self.options = [self._dice.sample(range(len(_ACTIONS)), world.actions) for _ in self.places]
        self._likings = [[self._dice.uniform(0.5, 2) for _ in range(world.actions)] for _ in self.places]
        self.causes = [list(self._troubles()) for _ in self.places]
        self.other = self._dice.sample(range(world.contexts), world.contexts)
        self.shift = self._dice.randrange(1, max(2, world.actions))

    def days(self) -> Iterator[Task]:
        """Yield the tasks in order."""
        world, dice = self.world, self._dice
        for step in range(world.days * world.visits):
            day = step / world.visits
            context = dice.randrange(world.contexts)
            likings = self._likings[context]
            wishes = sorted(range(world.actions), key=lambda a: dice.expovariate(likings[a]))
            causes = tuple(self._cause(context, action, day) for action in range(world.actions))
            fails = tuple(dice.random() < (world.severity if cause else world.noise) for cause in causes)
            heeds = tuple(dice.random() < world.heeds for _ in causes)
            at = START + timedelta(days=day)
            yield Task(step, at, context, tuple(wishes), self._worded(context), fails, causes, heeds)

    def action_text(self, context: int, action: int, step: int) -> str:
        """Return the text of an action; a value in it sometimes differs."""
        dice = random.Random(f"{step} {context} {action}")  # noqa: S311 - a simulation
        return _filled(_ACTIONS[self.options[context][action]], dice, dice.random() < self.world.values)

    def error(self, day: Task, action: int) -> str:
        """Return the error message of a failed action."""
        dice, cause = random.Random(f"error {day.step} {action}"), day.causes[action]  # noqa: S311 - a simulation
        return _filled(cause.error if cause else dice.choice(_RANDOM_ERRORS), dice, True)

    def _troubles(self) -> Iterator[Cause]:
        """Yield the causes of one context, one after the other."""
        day, action = 0.0, self._dice.randrange(self.world.actions)
        while self._dice.random() < self.world.broken and day < self.world.days:
            until = day + self._dice.expovariate(1 / self.world.lifetime)
            yield Cause(action, self._dice.choice(_ERRORS), day, until)
            day, action = until, (action + self._dice.randrange(1, self.world.actions)) % self.world.actions

    def _cause(self, context: int, action: int, day: float) -> Cause | None:
        now = (cause for cause in self.causes[context] if cause.action == action and cause.since <= day < cause.until)
        return next(now, None)

    def _worded(self, context: int) -> str:
        parts = list(self.places[context])
        if self._dice.random() < 0.5:
            parts = [parts[2], *parts[:2]]
        if self._dice.random() < self.world.wording:
            parts.append(self._dice.choice(_FILLERS).format(self._dice.randrange(1000, 99999)))
        return " ".join(parts)


def run(
    seeds: int = SEEDS,
    world: PreventionWorld | None = None,
    *,
    settings: VerdictSettings = SETTINGS,
    on_progress: ProgressCallback = no_progress,
) -> PreventionResult:
    """Run all arms in a world, once per seed."""
    rows, world = [], world or PreventionWorld()
    for seed in range(seeds):
        tallies = {arm: run_arm(Simulation(world, seed), arm, settings) for arm in ARMS}
        rows.append(_row(tallies))
        on_progress(seed + 1, seeds)
    return _result(world, rows)


def run_worlds(
    seeds: int = 5,
    worlds: Mapping[str, PreventionWorld] | None = None,
    *,
    settings: VerdictSettings = SETTINGS,
    on_progress: ProgressCallback = no_progress,
) -> dict[str, PreventionResult]:
    """Run several worlds; return their results by name."""
    several = WORLDS if worlds is None else worlds
    results = {}
    for number, (name, world) in enumerate(several.items(), start=1):
        results[name] = run(seeds, world, settings=settings)
        on_progress(number, len(several), name)
    return results


def run_arm(simulation: Simulation, arm: Arm, settings: VerdictSettings = SETTINGS) -> ArmCounts:
    """Run one arm once."""
    tally, known, struck = ArmCounts(), PatternRecognizer(), set[Cause]()
    for day in simulation.days():
        tally.tasks += 1
        chosen, verdict = day.wishes[0], None
        if arm != "without":
            chosen, verdict = _ask(simulation, known, day, arm, tally, settings)
        if chosen < 0:
            tally.idle += 1
            continue
        failed = day.fails[chosen]
        _count(tally, day.causes[chosen], failed, struck)
        if arm != "without":
            text = simulation.action_text(day.context, chosen, day.step)
            error = simulation.error(day, chosen) if failed else ""
            quality = 0.0 if failed else 1.0
            decision = FailureEvent("decision", f"d{day.step}", day.at, "agent", verdict, error, text, day.words)
            known.fold(replace(decision, quality=quality))
    return tally


def _ask(
    simulation: Simulation, known: PatternRecognizer, day: Task, arm: Arm, tally: ArmCounts, settings: VerdictSettings
) -> tuple[int, str]:
    """Return the action taken after asking, -1 if all are refused, and the id of the last verdict."""
    open = list(day.wishes)
    id = ""
    while open:
        action = open.pop(0)
        text, words = simulation.action_text(day.context, action, day.step), day.words
        verdict = _judge(simulation, known, day, action, arm, settings)
        id = f"v{day.step}.{len(open)}"
        if verdict.decision != "allow" or is_trial(verdict):
            said = FailureEvent("checked", id, day.at, "agent", action=text, context=words)
            known.fold(replace(said, verdict=verdict.decision, checks=verdict.checks))
        good = not day.fails[action]
        tally.asked += 1
        tally.asked_good += good
        refused = verdict.decision == "block" or (verdict.decision == "warn" and day.heeds[action])
        if not refused:
            return action, id
        tally.refused += 1
        tally.refused_good += good
        tally.refused_whole += day.causes[action] is None
        better = {forms.parse_action(remedy.text).head for remedy in verdict.instead if remedy.kind == "action"}
        heads = {one: forms.parse_action(simulation.action_text(day.context, one, day.step)).head for one in open}
        open.sort(key=lambda one: heads[one] not in better)
    return -1, id


def _judge(
    simulation: Simulation, known: PatternRecognizer, day: Task, action: int, arm: Arm, settings: VerdictSettings
) -> Verdict:
    if arm == "checks":
        text, words = simulation.action_text(day.context, action, day.step), day.words
    else:
        context = simulation.other[day.context]
        other = (action + simulation.shift) % simulation.world.actions
        text, words = simulation.action_text(context, other, day.step), " ".join(simulation.places[context])
    return check(known, text, words, now=day.at, settings=settings)


def _count(tally: ArmCounts, cause: Cause | None, failed: bool, struck: set[Cause]) -> None:
    tally.done += not failed
    tally.failures += failed
    if failed and cause is not None:
        tally.repeated += cause in struck
        tally.first += cause not in struck
        struck.add(cause)


def _row(tallies: Mapping[Arm, ArmCounts]) -> dict[str, float]:
    checks, without = tallies["checks"], tallies["without"]
    row: dict[str, float] = {}
    for arm, tally in tallies.items():
        row |= {f"{arm} {name}": float(value) for name, value in asdict(tally).items()}
        row[f"{arm} success"] = tally.done / max(1, tally.tasks)
        row[f"{arm} reduction"] = 1 - tally.repeated / max(1, without.repeated)
    row["false blocks"] = checks.refused_good / max(1, checks.asked_good)
    row["false of all"] = checks.refused_good / max(1, checks.asked)
    row["needless"] = checks.refused_whole / max(1, checks.asked)
    row["false among refused"] = checks.refused_good / max(1, checks.refused)
    return row


def _result(world: PreventionWorld, rows: Sequence[Mapping[str, float]]) -> PreventionResult:
    names = sorted(rows[0]) if rows else []
    table = np.array([[row[name] for name in names] for row in rows], dtype=np.float64)
    found = dict(zip(names, bootstrap(table), strict=True))
    return PreventionResult(
        world=world,
        seeds=len(rows),
        repeated={arm: found[f"{arm} repeated"] for arm in ARMS},
        success={arm: found[f"{arm} success"] for arm in ARMS},
        reduction=found["checks reduction"],
        placebo=found["placebo reduction"],
        false_blocks=found["false blocks"],
        false_of_all=found["false of all"],
        needless=found["needless"],
        false_among_refused=found["false among refused"],
        rows=tuple(rows),
    )


WORLDS: Mapping[str, PreventionWorld] = {
    "as it is": PreventionWorld(),
    "no drift": PreventionWorld(lifetime=1e9),
    "fast drift": PreventionWorld(lifetime=20),
    "no noise": PreventionWorld(noise=0.0),
    "much noise": PreventionWorld(noise=0.06),
    "failures that are not certain": PreventionWorld(severity=0.8),
    "many contexts, few visits": PreventionWorld(contexts=24),
    "few contexts, many visits": PreventionWorld(contexts=4),
    "more actions": PreventionWorld(actions=10),
    "always other values": PreventionWorld(values=1.0),
    "always other words": PreventionWorld(wording=1.0),
    "an agent that heeds every warning": PreventionWorld(heeds=1.0),
    "an agent that heeds few warnings": PreventionWorld(heeds=0.4),
}


@dataclass(frozen=True, slots=True)
class CheckLatency:
    """Milliseconds of a check with the index and with a full scan, and how often both agree.

    Clock times include what other programs took; processor times do not.
    """

    patterns: int
    queries: int
    p50: float
    p99: float
    cpu_p50: float
    cpu_p99: float
    scan_p50: float
    scan_p99: float
    scan_cpu_p50: float
    scan_cpu_p99: float
    agreement: float


class _FullScan(ActionHistory):
    """Compares with every account."""

    def _candidates(
        self, action: ParsedAction, context: ParsedContext, situation: SituationView | None
    ) -> Iterator[int]:
        return iter(range(len(self.accounts)))


def latency(patterns: int = 10_000, queries: int = 1000, scans: int = 50, seed: int = 1) -> CheckLatency:
    """Time a check among so many patterns; half of the questions are about known failures."""
    dice = random.Random(seed)  # noqa: S311 - a simulation
    known = PatternRecognizer()
    asked = []
    for number in range(patterns):
        action, context = _made_up(dice)
        error = f"{word(dice.randrange(400)).title()}Error: " + " ".join(word(dice.randrange(3000)) for _ in range(5))
        at = START + timedelta(minutes=number)
        known.fold(FailureEvent("failure", f"f{number}", at, "agent", None, error, action, context, solution="wait"))
        asked.append((action, context))
    questions = [dice.choice(asked) if place % 2 else _made_up(dice) for place in range(queries)]
    now = START + timedelta(minutes=patterns)
    scanning = PatternRecognizer.load(known.dump())
    scanning.history = _FullScan.load(known.history.dump())
    for question in questions[:20]:
        check(known, *question, now=now)
    quick, verdicts = _timed(lambda one: check(known, *one, now=now), questions)
    slow, same = _timed(lambda one: check(scanning, *one, now=now), questions[:scans])
    agree = [one.decision == other.decision for one, other in zip(verdicts, same, strict=False)]
    return CheckLatency(len(known.patterns()), queries, *quick, *slow, sum(agree) / max(1, len(agree)))


def _timed(
    ask: Callable[[tuple[str, str]], Verdict], questions: Sequence[tuple[str, str]]
) -> tuple[tuple[float, float, float, float], list[Verdict]]:
    """Return p50 and p99 of the clock, then of the processor; and the verdicts."""
    clock, processor, verdicts = list[float](), list[float](), []
    for question in questions:
        begun, used = time.perf_counter(), time.thread_time()
        verdicts.append(ask(question))
        processor.append(1000 * (time.thread_time() - used))
        clock.append(1000 * (time.perf_counter() - begun))
    p50, p99, cpu_p50, cpu_p99 = (float(one) for took in (clock, processor) for one in np.quantile(took, [0.5, 0.99]))
    return (p50, p99, cpu_p50, cpu_p99), verdicts


def _made_up(dice: random.Random) -> tuple[str, str]:
    """Return an action and a context of made-up words, with realistic frequencies."""
    program, command = word(int(dice.paretovariate(0.7)) % 200), word(200 + int(dice.paretovariate(0.7)) % 100)
    context = " ".join(word(300 + int(dice.paretovariate(0.5)) % 5000) for _ in range(6))
    return f"{program} {command} --{word(dice.randrange(50))} {word(dice.randrange(2000))}", context


def _filled(text: str, dice: random.Random, other: bool) -> str:
    names = ("core", "login", "reports", "left-pad", "gateway", "sessions")
    while "{n}" in text:
        text = text.replace("{n}", str(dice.randrange(1, 9000)) if other else "7", 1)
    while "{name}" in text:
        text = text.replace("{name}", dice.choice(names) if other else "core", 1)
    return text.replace("{path}", f"{dice.choice(names)}/{dice.choice(names)}.yaml" if other else "core/main.yaml")
