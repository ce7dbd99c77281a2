"""`engram bench`: measure on public data sets, and on sizes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from engram.cli.options import Group
from engram.cli.render import print_facts, print_json, print_table, progress
from engram.cli.state import State
from engram.cli.text import inline, many, size

if TYPE_CHECKING:
    from engram.bench.data import DataSet
    from engram.bench.rankings import Ranking, Run
    from engram.engine import Engram

F = TypeVar("F", bound=Callable[..., Any])

METRICS = {"any": "any@k", "all": "all@k", "fraction": "R@k", "ndcg": "NDCG@k", "mrr": "MRR@k"}
FILE = click.Path(path_type=Path, dir_okay=False)


@click.group("bench", cls=Group)
def command() -> None:
    """Measure recall on public data sets, and speed at any size."""


def _run_options(command: F) -> F:
    for option in reversed(
        (
            click.option("--data", type=FILE, required=True, help="The data set's JSON file, packed with gzip or not."),
            click.option("--out", type=FILE, help="Write every ranking into this file, as JSON lines."),
            click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Ask only so many of the questions."),
            click.option("--compare", is_flag=True, help="Run simpler systems on the same questions."),
            click.option("--embedder", metavar="NAME", help="Use this one, named as in the setting `embedder`."),
        )
    ):
        command = option(command)
    return command


@command.command("locomo")
@_run_options
@click.pass_obj
def locomo(state: State, data: Path, out: Path | None, limit: int | None, compare: bool, embedder: str | None) -> None:
    """Ask the questions of LoCoMo, each about one long conversation.

    Everything is stored in a temporary database, or in the one that --db names, which a later run uses again.
    """
    from engram.bench.data import read_locomo

    _measure(state, read_locomo(data).sample(limit), out, compare, embedder)


@command.command("longmemeval")
@_run_options
@click.option("--single-store", is_flag=True, help="Put the sessions of all questions into one store: the hard case.")
@click.pass_obj
def longmemeval(
    state: State,
    data: Path,
    out: Path | None,
    limit: int | None,
    compare: bool,
    embedder: str | None,
    single_store: bool,
) -> None:
    """Ask the questions of LongMemEval, each in its own haystack or all in one store.

    Everything is stored in a temporary database, or in the one that --db names, which a later run uses again.
    """
    from engram.bench.data import read_longmemeval

    found = read_longmemeval(data, single_store=single_store)
    if found.single_store and not single_store:
        state.notice("this file has one list of sessions for all questions, so they are searched in one store")
    _measure(state, found.sample(limit), out, compare, embedder)


@command.command("recompute")
@click.argument("file", type=FILE)
@click.pass_obj
def recompute(state: State, file: Path) -> None:
    """Compute everything again from the rankings that --out wrote."""
    from engram.bench import rankings

    _print(state, *rankings.read(file))


@command.command("latency")
@click.option("--sizes", default="10000,100000", show_default=True, help="How many memories, with commas between.")
@click.option(
    "--queries", type=click.IntRange(min=1), metavar="N", default=200, show_default=True, help="So many are timed."
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the databases in this folder, and use them again if they are there.",
)
@click.option("--out", type=FILE, help="Write the report into this file, as JSON.")
@click.pass_obj
def latency(state: State, sizes: str, queries: int, keep: Path | None, out: Path | None) -> None:
    """Make memories, and time recall beside numpy, SQLite's FTS5 and Chroma."""
    from engram import wiring
    from engram.bench import latency as bench

    numbers = _numbers(sizes)
    model = bench.best_model if wiring.models(state.settings).best() else None
    if model is None:
        state.notice("no embedding model is installed, so none is timed; `engram model install` gets one")
    with _folder(keep) as folder, progress(state, "latency") as tell:
        report = bench.run(numbers, queries, folder, model=model, tell=tell, say=state.notice)
    if out is not None:
        out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if state.json:
        print_json(report)
    else:
        _print_latency(report)


def _measure(state: State, data: DataSet, out: Path | None, compare: bool, embedder: str | None) -> None:
    from engram import wiring
    from engram.bench import rankings, retrieval

    def minilm() -> Any:
        return wiring.models(state.settings).load("minilm")

    with _brain(state, embedder) as brain, progress(state, "asking") as tell:
        run, found = retrieval.run(data, brain, minilm=minilm if compare else None, say=state.notice, tell=tell)
    if out is not None:
        rankings.write(out, run, found)
    _print(state, run, found)


@contextmanager
def _brain(state: State, embedder: str | None) -> Iterator[Engram]:
    """The database that --db names; else a temporary one, never the one of the settings."""
    from engram import wiring

    if state.db is not None:
        with wiring.open(state.db, embedder=embedder, say=state.notice) as brain:
            yield brain
        return
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as folder:
        db = Path(folder) / "bench.db"
        with wiring.open(db, embedder=embedder, vectors="", durable=False, say=state.notice) as brain:
            yield brain


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="engram-latency-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _numbers(sizes: str) -> list[int]:
    parts = [part.strip() for part in sizes.split(",")]
    if not all(part.isascii() and part.isdecimal() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"{sizes!r} is not a list of numbers such as 10000,100000.", param_hint="--sizes")
    return [int(part) for part in parts]


def _print(state: State, run: Run, found: list[Ranking]) -> None:
    from engram.bench.rankings import report

    result = report(run, found)
    if state.json:
        print_json(result)
        return
    questions, confidence = result["questions"], result["confidence"]
    scored = ", ".join(f"{number:,} at {level} level" for level, number in questions["scored"].items())
    print_facts(
        {
            "benchmark": f"{run.benchmark}{', one store' if run.single_store else ''}",
            "stored": f"{many(run.turns, 'turn')} of {many(run.conversations, 'conversation')}",
            "questions": f"{questions['asked']:,}: {questions['answerable']:,} answerable, "
            f"{questions['unanswerable']:,} not (these are only used for the confidence)",
            "scored": scored,
            "left out": "; ".join(f"{what}: {number:,}" for what, number in run.left_out.items()),
            "embedder": run.embedder,
            "confidence": _area(confidence),
        }
    )
    for level in ("turn", "session"):
        _print_level(result, level)
    for reason in run.skipped:
        state.notice(reason)


def _area(confidence: Mapping[str, Any]) -> str:
    sides = f"{confidence['answerable']:,} answerable and {confidence['unanswerable']:,} unanswerable questions"
    area = "not measured" if confidence["auc"] is None else f"area under the curve {confidence['auc']:.3f}"
    return f"{area}, {sides}"


def _print_level(result: Mapping[str, Any], level: str) -> None:
    rows = [row for row in result["results"] if row["level"] == level]
    if not rows:
        return
    click.echo(f"\n{level.capitalize()} level, all questions, in percent with 95% intervals:")
    whole = [[inline(row["system"]), str(row["k"]), *_cells(row)] for row in rows if row["type"] == "all"]
    print_table(["SYSTEM", "K", *METRICS.values()], whole)
    click.echo(f"\n{level.capitalize()} level, Engram by type of question:")
    typed = [row for row in rows if row["system"] == "engram" and row["type"] != "all"]
    lines = [[inline(row["type"]), f"{row['questions']:,}", str(row["k"]), *_cells(row)] for row in typed]
    print_table(["TYPE", "QUESTIONS", "K", *METRICS.values()], lines)
    if gains := [row for row in result["better_than"] if row["level"] == level]:
        click.echo(f"\n{level.capitalize()} level, Engram minus the other system, question by question, in points:")
        print_table(
            ["SYSTEM", "K", *METRICS.values()],
            [[inline(row["system"]), str(row["k"]), *_cells(row, "+")] for row in gains],
        )


def _cells(row: Mapping[str, Any], sign: str = "") -> list[str]:
    return [
        f"{100 * row[name]['mean']:{sign}.1f} [{100 * row[name]['low']:{sign}.1f}, {100 * row[name]['high']:{sign}.1f}]"
        for name in METRICS
    ]


def _print_latency(report: Mapping[str, Any]) -> None:
    for line in report["sizes"]:
        probe, rate = line["probe"], line["adds_per_second"]
        click.echo(f"{many(line['memories'], 'memory')}, {report['queries']:,} queries:")
        print_facts(
            {
                "open": f"{probe['open_ms']:,.0f} ms, {probe['first_open_ms']:,.0f} ms in a new process",
                "first recall": f"{probe['first_recall_ms']:,.0f} ms",
                "adds": None if rate is None else f"{rate:,} a second",
                "file": size(line["bytes"]),
                "memory": _megabytes(probe["memory"]),
                "memory with model": _megabytes(probe["memory_with_model"]),
                "recall@10": f"{line['recall_at_10']:.3f} of the vector part, against numpy",
            }
        )
        rows = [[name, f"{t['p50']:.2f} ms", f"{t['p99']:.2f} ms"] for name, t in line["timings"].items()]
        print_table(["CALL", "P50", "P99"], rows)
        print_table(["RATIO OF P50", "TIMES"], [[name, f"{x:.2f}"] for name, x in line["ratios"].items()])
        click.echo()
    if report["growth"]:
        few, most = report["sizes"][0]["memories"], report["sizes"][-1]["memories"]
        click.echo(f"Growth of p50 from {few:,} to {most:,} memories:")
        print_table(["CALL", "TIMES"], [[name, f"{x:.2f}"] for name, x in report["growth"].items()])


def _megabytes(number: float | None) -> str | None:
    return None if number is None else f"{number:,.0f} MB"
