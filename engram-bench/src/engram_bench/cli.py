"""The command `engram bench`: measure on public data sets, in simulated worlds, and at growing sizes."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from engram.cli.formatting import format_size, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, parse_fraction
from engram.cli.render import print_fields, print_json, print_table, progress

if TYPE_CHECKING:
    from engram.engine import Engram
    from engram_bench.data import DataSet
    from engram_bench.metrics import Estimate
    from engram_bench.prevention import PreventionResult
    from engram_bench.rankings import BenchmarkRun, Ranking

F = TypeVar("F", bound=Callable[..., Any])

METRICS = {"any": "any@k", "all": "all@k", "fraction": "R@k", "ndcg": "NDCG@k", "mrr": "MRR@k"}
FILE = click.Path(path_type=Path, dir_okay=False)


@click.group("bench", cls=CommandGroup)
def command() -> None:
    """Measure recall and learning on public data sets and in simulated worlds, and speed at any size."""


def _run_options(command: F) -> F:
    for option in reversed(
        (
            click.option("--data", type=FILE, required=True, help="The data set's JSON file, gzipped or not."),
            click.option("--out", type=FILE, help="Write every ranking into this file, as JSON lines."),
            click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Ask only N of the questions."),
            click.option("--compare", is_flag=True, help="Run simpler systems on the same questions."),
            click.option("--embedder", metavar="NAME", help="Use this one, named as in the setting `embedder`."),
        )
    ):
        command = option(command)
    return command


def _seeds(default: int) -> Callable[[F], F]:
    return click.option(
        "--seeds",
        type=click.IntRange(min=2),
        metavar="N",
        default=default,
        show_default=True,
        help="Simulated runs, each with its own random seed.",
    )


@command.command("locomo")
@_run_options
@click.pass_obj
def locomo(
    cli: Invocation, data: Path, out: Path | None, limit: int | None, compare: bool, embedder: str | None
) -> None:
    """Ask the questions of LoCoMo, each about one long conversation.

    Everything is stored in a temporary database, or in the one named by --db, which later runs reuse.
    """
    from engram_bench.data import read_locomo

    _measure(cli, read_locomo(data).sample(limit), out, compare, embedder)


@command.command("longmemeval")
@_run_options
@click.option("--single-store", is_flag=True, help="Put the sessions of all questions into one store: the hard case.")
@click.pass_obj
def longmemeval(
    cli: Invocation,
    data: Path,
    out: Path | None,
    limit: int | None,
    compare: bool,
    embedder: str | None,
    single_store: bool,
) -> None:
    """Ask the questions of LongMemEval, each in its own haystack or all in one store.

    Everything is stored in a temporary database, or in the one named by --db, which later runs reuse.
    """
    from engram_bench.data import read_longmemeval

    found = read_longmemeval(data, single_store=single_store)
    if found.single_store and not single_store:
        cli.notice("this file has one list of sessions for all questions, so they are searched in one store")
    _measure(cli, found.sample(limit), out, compare, embedder)


@command.command("recompute")
@click.argument("file", type=FILE)
@click.pass_obj
def recompute(cli: Invocation, file: Path) -> None:
    """Compute the report again from the rankings written by --out."""
    from engram_bench import rankings

    _print(cli, *rankings.read(file))


@command.command("latency")
@click.option("--sizes", default="10000,100000", show_default=True, help="Numbers of memories, separated by commas.")
@click.option(
    "--queries", type=click.IntRange(min=1), metavar="N", default=200, show_default=True, help="Queries to time."
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the databases in this folder, and use them again if they are there.",
)
@click.option("--out", type=FILE, help="Write the report into this file, as JSON.")
@click.pass_obj
def latency(cli: Invocation, sizes: str, queries: int, keep: Path | None, out: Path | None) -> None:
    """Generate memories, and time recall beside numpy, SQLite's FTS5 and Chroma."""
    from engram import wiring
    from engram_bench import latency as bench

    numbers = _numbers(sizes)
    model = bench.best_model if wiring.models(cli.settings).best_installed() else None
    if model is None:
        cli.notice("no embedding model is installed, so none is timed; `engram model install` gets one")
    with _folder(keep) as folder, progress(cli, "latency") as on_progress:
        report = bench.run(numbers, queries, folder, model=model, on_progress=on_progress, say=cli.notice)
    if out is not None:
        out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if cli.json:
        print_json(report)
    else:
        _print_latency(report)


@command.command("decisions")
@click.option("--data", type=FILE, required=True, help="JSON lines: a context, and the outcome of every action in it.")
@_seeds(20)
@click.option("--out", type=FILE, help="Write the choices and their outcomes into this file, as JSON lines.")
@click.option("--embedder", metavar="NAME", help="Use this one, named as in the setting `embedder`.")
@click.pass_obj
def decisions(cli: Invocation, data: Path, seeds: int, out: Path | None, embedder: str | None) -> None:
    """Choose what to do in a stream of tasks, learning from the outcomes of what was chosen only.

    Compared with chance, with the same without contexts, and with shuffled contexts. Then a memory that recorded
    decisions taken at random is asked for suggestions about other tasks, with default settings.
    """
    from engram_bench import default_advice, replay

    tasks = replay.read(data)
    with _brain(cli, embedder) as brain, progress(cli, "deciding") as on_progress:
        report, played = replay.run(tasks, brain.embedder, brain.redactor, seeds=seeds, on_progress=on_progress)
        report["as_shipped"] = default_advice.run(tasks, brain.embedder, on_progress=on_progress)
    if out is not None:
        replay.write(out, played)
    if cli.json:
        print_json(_nan_to_none(report))
    else:
        _print_decisions(report)


@command.command("grouping")
@click.option("--data", type=FILE, required=True, help="JSON lines: log lines or errors of tools, with their groups.")
@click.option("--out", type=FILE, help="Write the group of every line into this file, as JSON lines, in order.")
@click.pass_obj
def grouping(cli: Invocation, data: Path, out: Path | None) -> None:
    """Group log lines and errors by what they have in common, and compare with the groups they belong to."""
    from engram_bench import grouping as bench

    lines, sha256 = bench.read_lines(data)
    with progress(cli, "grouping") as on_progress:
        report, groups = bench.run(lines, on_progress=on_progress)
    if out is not None:
        out.write_text("".join(json.dumps({"group": group}) + "\n" for group in groups), encoding="utf-8")
    if cli.json:
        print_json({"data_sha256": sha256, **report})
        return
    _print_grouping(report)
    for reason in report["skipped"]:
        cli.notice(reason)


@command.command("prevention")
@_seeds(30)
@click.option("--worlds", is_flag=True, help="Also simulate other worlds: more noise, more drift, more contexts, …")
@click.option("--latency", is_flag=True, help="Also time a check among 10,000 known failures.")
@click.pass_obj
def prevention(cli: Invocation, seeds: int, worlds: bool, latency: bool) -> None:
    """Simulate an agent that asks before it acts, and count the repeated failures.

    The same agent also runs without checks, and with checks about something else.
    """
    from engram_bench import prevention as bench

    with progress(cli, "simulating") as on_progress:
        results = (
            bench.run_worlds(seeds, on_progress=on_progress)
            if worlds
            else {"as it is": bench.run(seeds, on_progress=on_progress)}
        )
        speed = asdict(bench.latency()) if latency else None
    if cli.json:
        print_json({"worlds": {name: _to_json(asdict(result)) for name, result in results.items()}, "latency": speed})
        return
    _print_prevention(results)
    if speed is not None:
        click.echo()
        print_fields({name.replace("_", " "): f"{number:,.3g}" for name, number in speed.items()})


@command.command("transfer")
@_seeds(10)
@click.option(
    "--overlap",
    type=parse_fraction,
    metavar="0..1",
    default=0.9,
    show_default=True,
    help="Share of situations both agents meet.",
)
@click.pass_obj
def transfer(cli: Invocation, seeds: int, overlap: float) -> None:
    """Simulate two agents with similar tasks, and count the failures that sharing avoids for the second one.

    The same agent also runs alone, with a grant that is revoked halfway, and with a file instead of a grant.
    """
    from engram_bench import transfer as bench

    with progress(cli, "simulating") as on_progress:
        result = bench.run(seeds, overlap, on_progress=on_progress)
    if cli.json:
        print_json(_to_json(asdict(result)))
        return
    click.echo(f"{plural(result.seeds, 'world')}, {bench.TASKS} tasks each, with 95% intervals:")
    rows = [
        [
            arm,
            _estimate(failed._asdict(), digits=1),
            _estimate(result.second_half[arm]._asdict(), digits=1) if arm in result.second_half else "-",
        ]
        for arm, failed in result.failures.items()
    ]
    print_table(["AGENT", "FAILURES", "IN THE SECOND HALF"], rows)
    print_fields(
        {
            "fewer failures by a grant": _percent(result.reduction),
            "fewer failures by a file": _percent(result.by_file),
            "own advice after a revocation": f"{result.same_advice:.1%}",
        }
    )


@command.command("advice")
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    metavar="N",
    default=1,
    show_default=True,
    help="Simulated runs of every world, each with its own random seed.",
)
@click.option("--days", type=click.IntRange(min=9), metavar="N", help="Days to simulate; 28 by default.")
@click.option("--worlds", multiple=True, metavar="KIND", help="Only these: the name of a world, `seen` or `held out`.")
@click.option("--short", is_flag=True, help="Simulate 12 days in two worlds only, one of them held out.")
@click.option("--contexts", is_flag=True, help="Only ask about 1 to 20 contexts with two actions each.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", default=2, show_default=True, help="Processes to use.")
@click.option("--embedder", metavar="NAME", help="Use this one, named as in the setting `embedder`.")
@click.option("--out", type=FILE, help="Write every question and its answer into this file, as JSON lines.")
@click.pass_obj
def advice(
    cli: Invocation,
    seeds: int,
    days: int | None,
    worlds: tuple[str, ...],
    short: bool,
    contexts: bool,
    jobs: int,
    embedder: str | None,
    out: Path | None,
) -> None:
    """Simulate teams at work, ask what to do by context alone, and judge the suggestions by the true rates.

    Compared with habit, chance, an empty memory, a memory with exchanged contexts, and one that knows the truth.
    Held-out worlds are reported separately.
    """
    from engram_bench.advice import figures
    from engram_bench.advice.worlds import DAYS

    report: dict[str, Any] = {}
    if not contexts:
        chosen = figures.choose_kinds(worlds, short=short)
        length = days or (figures.SHORT_DAYS if short else DAYS)
        with progress(cli, "simulating") as on_progress:
            report, runs = figures.run(
                chosen, seeds, days=length, embedder=embedder, jobs=jobs, on_progress=on_progress
            )
        if out is not None:
            figures.write(out, runs)
    if contexts or not (short or worlds):
        with progress(cli, "asking") as on_progress:
            report["contexts"] = figures.ask_contexts(
                [embedder] if embedder else [None, "hashing"], on_progress=on_progress
            )
    if cli.json:
        print_json(_nan_to_none(report))
    else:
        _print_advice(report)


@command.command("poisoning")
@click.option(
    "--data", type=FILE, required=True, help="JSON lines: a text, and whether it is an attack (label 1 or 0)."
)
@click.option("--clean", type=FILE, multiple=True, help="More ordinary text, which must not be quarantined.")
@click.option("--out", type=FILE, help="Write what was found in every text into this file, as JSON lines, in order.")
@click.pass_obj
def poisoning(cli: Invocation, data: Path, clean: tuple[Path, ...], out: Path | None) -> None:
    """Plant attacks among ordinary memories, and count the recalls that return one, with the defence and without.

    A file of --clean is plain text, or JSON or JSON lines, of which each `text` and `content` is used.
    """
    from engram_bench import poisoning as bench

    rows, sha256 = bench.read(data)
    ordinary = {path.name: bench.read_clean(path) for path in clean}
    with progress(cli, "planting") as on_progress:
        report, judged = bench.run(rows, ordinary, on_progress=on_progress)
    if out is not None:
        out.write_text("".join(json.dumps(one) + "\n" for one in judged), encoding="utf-8")
    if cli.json:
        print_json({"data_sha256": sha256, **report})
    else:
        _print_poisoning(report)


@command.command("calibration")
@_seeds(20)
@click.option("--data", type=FILE, help="Also replay this file of decisions, as `engram bench decisions` does.")
@click.option("--embedder", metavar="NAME", help="For the replay: use this one, named as in the setting `embedder`.")
@click.pass_obj
def calibration(cli: Invocation, seeds: int, data: Path | None, embedder: str | None) -> None:
    """Simulate worlds with known true success rates, and measure how accurate reported rates and intervals are."""
    from engram_bench import calibration as bench
    from engram_bench import replay

    tasks = None if data is None else replay.read(data)
    with progress(cli, "simulating") as on_progress:
        report, _ = bench.run(seeds, on_progress=on_progress)
    replayed = None
    if tasks is not None:
        with _brain(cli, embedder) as brain, progress(cli, "deciding") as on_progress:
            replayed, _ = replay.run(tasks, brain.embedder, brain.redactor, seeds=seeds, on_progress=on_progress)
    if cli.json:
        print_json({"simulated": report, "replay": replayed})
        return
    _print_calibration(report)
    if replayed is not None:
        click.echo("\nThe replay:")
        print_fields(_honesty(replayed))


@command.command("redaction")
@click.option("--data", type=FILE, help="JSON lines: texts with the spans of personal data in them.")
@click.option("--clean", type=FILE, multiple=True, help="Also look for false alarms in this file; may be repeated.")
@click.option("--seed", type=int, metavar="N", help="Random seed of the generated secrets.")
@click.option("--out", type=FILE, help="Write the report and every text that went wrong, as JSON lines.")
@click.pass_obj
def redaction(cli: Invocation, data: Path | None, clean: tuple[Path, ...], seed: int | None, out: Path | None) -> None:
    """Generate secrets and look-alikes, and count what the redactor finds, beside detect-secrets."""
    from engram_bench import redaction as bench

    labelled = [] if data is None else bench.read_spans(data)
    texts = [sample for path in clean for sample in bench.read_clean(path)]
    with progress(cli, "looking") as on_progress:
        report, wrong = bench.run(labelled, texts, seed=bench.SEED if seed is None else seed, on_progress=on_progress)
    if out is not None:
        bench.write(out, report, wrong)
    if cli.json:
        print_json(report)
        return
    _print_redaction(report)
    for reason in report["skipped"]:
        cli.notice(reason)


def _measure(cli: Invocation, data: DataSet, out: Path | None, compare: bool, embedder: str | None) -> None:
    from engram import wiring
    from engram_bench import rankings, retrieval

    def minilm() -> Any:
        return wiring.models(cli.settings).load("minilm")

    with _brain(cli, embedder) as brain, progress(cli, "asking") as on_progress:
        run, found = retrieval.run(
            data, brain, minilm=minilm if compare else None, say=cli.notice, on_progress=on_progress
        )
    if out is not None:
        rankings.write(out, run, found)
    _print(cli, run, found)


@contextmanager
def _brain(cli: Invocation, embedder: str | None) -> Iterator[Engram]:
    """Open the database that --db names, else a temporary one, never that of the settings."""
    from engram import wiring

    if cli.db is not None:
        with wiring.open(cli.db, embedder=embedder, say=cli.notice) as brain:
            yield brain
        return
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as folder:
        db = Path(folder) / "bench.db"
        with wiring.open(db, embedder=embedder, vectors="", durable=False, say=cli.notice) as brain:
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


def _print(cli: Invocation, run: BenchmarkRun, found: list[Ranking]) -> None:
    from engram_bench.rankings import report

    result = report(run, found)
    if cli.json:
        print_json(result)
        return
    questions, confidence = result["questions"], result["confidence"]
    scored = ", ".join(f"{number:,} at {level} level" for level, number in questions["scored"].items())
    print_fields(
        {
            "benchmark": f"{run.benchmark}{', one store' if run.single_store else ''}",
            "stored": f"{plural(run.turns, 'turn')} of {plural(run.conversations, 'conversation')}",
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
        cli.notice(reason)


def _area(confidence: Mapping[str, Any]) -> str:
    sides = f"{confidence['answerable']:,} answerable and {confidence['unanswerable']:,} unanswerable questions"
    area = "not measured" if confidence["auc"] is None else f"area under the curve {confidence['auc']:.3f}"
    return f"{area}, {sides}"


def _print_level(result: Mapping[str, Any], level: str) -> None:
    rows = [row for row in result["results"] if row["level"] == level]
    if not rows:
        return
    click.echo(f"\n{level.capitalize()} level, all questions, in percent with 95% intervals:")
    whole = [[one_line(row["system"]), str(row["k"]), *_cells(row)] for row in rows if row["type"] == "all"]
    print_table(["SYSTEM", "K", *METRICS.values()], whole)
    click.echo(f"\n{level.capitalize()} level, Engram by type of question:")
    typed = [row for row in rows if row["system"] == "engram" and row["type"] != "all"]
    lines = [[one_line(row["type"]), f"{row['questions']:,}", str(row["k"]), *_cells(row)] for row in typed]
    print_table(["TYPE", "QUESTIONS", "K", *METRICS.values()], lines)
    if gains := [row for row in result["better_than"] if row["level"] == level]:
        click.echo(f"\n{level.capitalize()} level, Engram minus the other system, question by question, in points:")
        print_table(
            ["SYSTEM", "K", *METRICS.values()],
            [[one_line(row["system"]), str(row["k"]), *_cells(row, "+")] for row in gains],
        )


def _cells(row: Mapping[str, Any], sign: str = "") -> list[str]:
    return [
        f"{100 * row[name]['mean']:{sign}.1f} [{100 * row[name]['low']:{sign}.1f}, {100 * row[name]['high']:{sign}.1f}]"
        for name in METRICS
    ]


def _print_latency(report: Mapping[str, Any]) -> None:
    for line in report["sizes"]:
        probe, rate = line["probe"], line["adds_per_second"]
        click.echo(f"{plural(line['memories'], 'memory')}, {report['queries']:,} queries:")
        print_fields(
            {
                "open": f"{probe['open_ms']:,.0f} ms, {probe['first_open_ms']:,.0f} ms in a new process",
                "first recall": f"{probe['first_recall_ms']:,.0f} ms",
                "adds": None if rate is None else f"{rate:,} a second",
                "file": format_size(line["bytes"]),
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


def _print_decisions(report: Mapping[str, Any]) -> None:
    print_fields(
        {
            "tasks": f"{report['tasks']:,}, with {plural(report['actions'], 'action')} each",
            "seeds": report["seeds"],
            "embedder": report["embedder"],
            **_honesty(report),
        }
    )
    click.echo("\nMean outcome over the whole stream, with 95% intervals over seeds:")
    rows = [[name, _estimate(found)] for name, found in report["means"].items()]
    rows += [["best single action", f"{report['best_single']:.3f}"], ["oracle", f"{report['oracle']:.3f}"]]
    print_table(["CHOICE", "MEAN OUTCOME"], rows)
    click.echo("\nDifferences, seed by seed:")
    differences = report["differences"].items()
    print_table(["DIFFERENCE", "MEAN OUTCOME"], [[name, _estimate(found, "+")] for name, found in differences])
    advice = report["as_shipped"]
    click.echo(
        f"\nSuggestions with default settings, after {plural(advice['recorded'], 'decision')} taken at random, "
        f"{plural(advice['asked'], 'question')} by context alone:"
    )
    told = {
        "share recommended": "recommended",
        "mean outcome of what was recommended": "earned",
        "best single action, on the same tasks": "best_single_there",
        "best single action, on all tasks asked about": "best_single_everywhere",
        "first action listed, recommended or not": "first_listed",
    }
    print_table(["FIGURE", "MEAN"], [[words, _estimate(advice[name])] for words, name in told.items()])


def _honesty(report: Mapping[str, Any]) -> dict[str, str]:
    return {
        "Brier score": f"{report['brier']:.3f} of the rates it believed, "
        f"{report['brier_of_base_rates']:.3f} of the true mean of each action",
        "calibration error": f"{report['ece']:.3f}",
    }


def _print_calibration(report: Mapping[str, Any]) -> None:
    click.echo("Reported rates, against the true ones:")
    rows = [
        [
            name.replace("_", " "),
            f"{found['rates']:,}",
            f"{found['ece']:.3f}",
            f"{found['brier']:.3f} ({found['brier_of_base_rate']:.3f}, {found['brier_of_truth']:.3f})",
            f"{100 * found['coverage']:.1f}%",
            f"{found['width']:.2f}",
        ]
        for name, found in report.items()
        if found["rates"]
    ]
    headings = ["RATES", "NUMBER", "CALIBRATION ERROR", "BRIER (OF THE MEAN, OF THE TRUTH)", "IN 95% INTERVAL", "WIDTH"]
    print_table(headings, rows)


def _print_redaction(report: Mapping[str, Any]) -> None:
    facts = {"rules": report["rules"], "provider formats": report["formats"], "contexts": ", ".join(report["contexts"])}
    print_fields({**facts, "seed": report["seed"]})
    click.echo("\nSecrets; a secret counts as found if all of it is gone (detect-secrets: if it names any of it):")
    rows = [
        [
            one_line(name),
            f"{found['texts']:,}",
            *map(_percentage, (found["recall"], found["precision"], found["detect-secrets"])),
        ]
        for name, found in report["secrets"].items()
        if "/" not in name or found["recall"] < 1 or name.partition("/")[2] in report["contexts"]
    ]
    print_table(["SECRETS", "TEXTS", "RECALL", "PRECISION", "DETECT-SECRETS"], rows)
    for source, found in report["personal"].items():
        whole = found["all"]
        without = whole["texts_without"]
        alarms = (
            f"; false alarms in {_percentage(whole['false_alarms'])} of {without:,} texts without" if without else ""
        )
        click.echo(f"\nPersonal data, {'in the file' if source == 'data' else 'made up'}{alarms}:")
        lines = {**found["types"], "all": whole}.items()
        rows = [[n, f"{x['labelled']:,}", _percentage(x["recall"]), _percentage(x["precision"])] for n, x in lines]
        print_table(["TYPE", "LABELLED", "RECALL", "PRECISION"], rows)
    click.echo("\nTexts without secrets in which something was found:")
    rows = [
        [one_line(name), f"{x['texts']:,}", *map(_percentage, (x["secrets"], x["personal"], x["detect-secrets"]))]
        for name, x in report["clean"].items()
    ]
    print_table(["TEXTS", "NUMBER", "SECRETS", "PERSONAL DATA", "DETECT-SECRETS"], rows)
    click.echo("\nShort texts a second of processor time, on one core:")
    print_table(
        ["TEXTS", "ENGRAM", "DETECT-SECRETS"],
        [[name, *("" if x is None else f"{x:,}" for x in rates.values())] for name, rates in report["speed"].items()],
    )


def _percentage(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}%"


def _print_grouping(report: Mapping[str, Any]) -> None:
    print_fields(
        {
            "lines": f"{report['lines']:,}, {report['scored']:,} of them scored",
            "systems": f"{report['systems']:,}",
        }
    )
    click.echo("\nMean over systems, in percent:")
    means = [row for row in report["means"] if row["accuracy"] is not None]
    rows = [[row["arm"], f"{100 * row['accuracy']:.1f}", f"{100 * row['f1']:.1f}"] for row in means]
    print_table(["GROUPING", "ACCURACY", "F1"], rows)
    left_out = any(row["arm"] == "engram, system left out" for row in report["results"])
    shown = "engram, system left out" if left_out else "engram"
    click.echo("\nEngram, thresholds chosen on the other systems:" if left_out else "\nEngram by system:")
    rows = [
        [
            one_line(row["system"]) or "-",
            f"{row['lines']:,}",
            f"{row['groups']:,} of {row['true_groups']:,}",
            f"{100 * row['accuracy']:.1f}",
            f"{100 * row['f1']:.1f}",
        ]
        for row in report["results"]
        if row["arm"] == shown
    ]
    print_table(["SYSTEM", "LINES", "GROUPS", "ACCURACY", "F1"], rows)


def _print_prevention(results: Mapping[str, PreventionResult]) -> None:
    for name, result in results.items():
        click.echo(f"World {name}, {plural(result.seeds, 'seed')}, with 95% intervals:")
        rows = [
            [arm, _estimate(result.repeated[arm]._asdict(), digits=1), _percent(result.success[arm])]
            for arm in result.repeated
        ]
        print_table(["AGENT", "REPEATED FAILURES", "TASKS DONE"], rows)
        print_fields(
            {
                "repeated failures prevented": f"{_percent(result.reduction)}; by placebo {_percent(result.placebo)}",
                "good actions refused": _percent(result.false_blocks),
                "needless refusals": f"{_percent(result.needless)} of all actions",
            }
        )


ADVICE = {
    "recommended": "recommended, after eight days",
    "recommended, all days": "recommended, all days",
    "foreign": "from another situation, after eight days",
    "foreign, all days": "from another situation, all days",
    "success": "true success of what was recommended, after eight days",
    "success, all days": "true success of what was recommended, all days",
    "success in new words": "the same, in words never recorded",
    "success if followed, else habit": "success if followed, else by habit",
    "regret": "regret, if followed, else by habit",
    "coverage": "rates inside their 95% interval",
    "width": "width of the intervals",
    "coverage after a change": "rates inside, from six outcomes after a change on",
    "coverage just after a change": "rates inside, before that",
    "outcomes until given up": "outcomes until a broken action is given up",
    "given up within six": "broken actions given up within six outcomes",
    "outcomes of the new best until recommended": "outcomes of the new best until it is recommended",
    "off-topic": "recommendations off topic",
    "false blocks": "good actions refused by a check",
    "missed blocks": "bad actions allowed by a check",
    "missed blocks in known words": "the same, in words that were recorded",
}
"""Figures of `engram bench advice`, in words."""


def _print_advice(report: Mapping[str, Any]) -> None:
    if "arms" in report:
        print_fields({"seeds": report["seeds"], "days": report["days"], "embedder": report["embedder"]})
    for group, arms in report.get("arms", {}).items():
        click.echo(f"\nWorlds {group} ({', '.join(report['worlds'][group])}), with 95% intervals:")
        rows = []
        for arm, found in arms.items():
            shown = [(name, found.get(name)) for name in ("recommended", "foreign", "success", "regret")]
            rows.append([arm, *("-" if one is None else _figure(name, one) for name, one in shown)])
        print_table(["ARM", "RECOMMENDED", "FROM ANOTHER SITUATION", "TRUE SUCCESS", "REGRET"], rows)
        shipped = {arm: found for arm, found in arms.items() if arm.startswith("engram")}
        click.echo()
        lines = [
            [words, *(_figure(name, found[name]) if name in found else "-" for found in shipped.values())]
            for name, words in ADVICE.items()
            if any(name in found for found in shipped.values())
        ]
        print_table(["FIGURE", *(arm.upper() for arm in shipped)], lines)
    for embedder, found in report.get("contexts", {}).items():
        click.echo(f"\nContexts with an action that works in 90% of 20 attempts and one in 30%, {embedder}:")
        headings = ["contexts", "right", "wrong", "foreign", "abstained"]
        print_table([name.upper() for name in headings], [[str(row[name]) for name in headings] for row in found])


def _figure(name: str, found: Mapping[str, float]) -> str:
    from engram_bench.advice.figures import AMOUNTS

    if name in AMOUNTS:
        return _estimate(found, digits=2)
    mean, low, high = (100 * found[part] for part in ("mean", "low", "high"))
    return f"{mean:.1f}% [{low:.1f}, {high:.1f}]"


def _nan_to_none(value: Any) -> Any:
    """Replace NaN, which JSON does not have, by null."""
    if isinstance(value, Mapping):
        return {name: _nan_to_none(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_nan_to_none(one) for one in value]
    return None if isinstance(value, float) and value != value else value  # noqa: PLR0124 - only NaN differs


def _print_poisoning(report: Mapping[str, Any]) -> None:
    click.echo(f"Recalls that an attack reached, among the first {report['k']}:")
    rows = [
        [row["attack"], row["arm"], f"{row['planted']:,} among {row['memories']:,}", f"{100 * row['share']:.1f}%"]
        for row in report["exposure"]
    ]
    print_table(["ATTACK", "ARM", "PLANTED", "REACHED"], rows)
    click.echo("\nAttacks that are quarantined, and ordinary texts that are, falsely:")
    shares = [("attack", row) for row in (*report["quarantined"], report["all_attacks"])]
    shares += [("ordinary", row) for row in report["false_quarantines"]]
    rows = [
        [
            kind,
            one_line(row["name"]) or "-",
            f"{row['quarantined']:,} of {row['texts']:,}",
            f"{100 * row['share']:.2f}%",
        ]
        for kind, row in shares
    ]
    print_table(["TEXTS", "OF", "QUARANTINED", "SHARE"], rows)
    click.echo(f"\n{report['microseconds_per_200_characters']:.0f} microseconds for 200 characters")


def _estimate(found: Mapping[str, float], sign: str = "", digits: int = 3) -> str:
    if math.isnan(found["mean"]):
        return "-"
    mean, low, high = (f"{found[part]:{sign}.{digits}f}" for part in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def _percent(found: Estimate) -> str:
    return f"{100 * found.mean:.1f}% [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def _to_json(value: Any) -> Any:
    """Return a value of dataclasses as JSON, with estimates as objects."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, Mapping):
        return {name: _to_json(one) for name, one in value.items()}
    return [_to_json(one) for one in value] if isinstance(value, tuple | list) else value
