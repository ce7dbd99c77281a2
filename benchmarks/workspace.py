"""Measure the cost of a snapshot, against `git add` and `tar`, with 0%, 1% and 100% of the files changed.

python benchmarks/workspace.py [--size 1GB] [--folder FOLDER] [--diffs] [--json FILE]

Half of the bytes are text files of 2 to 60 kB, half are large files that do not compress. A change inserts 20 bytes in
the middle of a file. `x git` is the ratio to the time of `git add -A`. With `--diffs` a last lane adds deltas: `git
repack` after everything was added, which takes many times as long.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import engram
from engram.agents.workspaces.objects import Objects
from engram.agents.workspaces.snapshots import Workspaces
from engram.model.workspace import Secrets
from engram.ports import Scope

LARGE = 8_000_000
EDIT = b"twenty bytes or so.."
SETTLES = 2.5
"""Seconds after which a change cannot be missed, so that files are not read again only to be sure."""
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9}
GIT = ["-c", "user.name=bench", "-c", "user.email=bench@example.com", "-c", "gc.auto=0", "-c", "maintenance.auto=false"]
"""Git packs nothing by itself meanwhile, which would slow the others down."""


@dataclass(frozen=True)
class Lane:
    """One way of storing a folder: its command, and where it writes."""

    name: str
    keep: Callable[[], None]
    store: Path
    after: Callable[[], None] = lambda: None


def bytes_of(text: str) -> int:
    """Parse a size such as `200MB`."""
    return int(float(text[:-2]) * UNITS[text[-2:].upper()])


def make(folder: Path, size: int, dice: random.Random) -> list[Path]:
    """Create a tree of about this size; return its files, in order."""
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz_", k=dice.randint(2, 10))) for _ in range(5000)]
    made, left = list[Path](), size // 2
    while left > 0:
        text = " ".join(dice.choices(words, k=dice.randint(300, 9000))).replace(" the", "\n").encode()
        path = folder / f"src{len(made) % 97}" / f"part{len(made) % 7}" / f"file{len(made)}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        made.append(path)
        left -= len(text)
    (folder / "data").mkdir()
    for number in range(max(1, size // 2 // LARGE)):
        path = folder / "data" / f"large{number}.bin"
        path.write_bytes(b"\x00" + dice.randbytes(min(LARGE, size // 2)))
        made.append(path)
    return made


def edit(files: Sequence[Path]) -> int:
    """Insert some bytes in the middle of each file; return their total size."""
    total = 0
    for path in files:
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] + EDIT + data[len(data) // 2 :])
        total += len(data)
    return total


def weight(path: Path) -> int:
    """Return the bytes stored below a path."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def seconds(act: Callable[[], None]) -> float:
    """Time a call."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def lanes(root: Path, tree: Path, brain: engram.Engram) -> Iterator[Lane]:
    """Return all lanes; git first, the reference of the ratios."""
    git = ["git", f"--git-dir={root / 'git'}", f"--work-tree={tree}", *GIT]
    run(["git", "init", "-q", "--bare", str(root / "git")])
    yield Lane(
        "git add",
        lambda: run([*git, "add", "-A"]),
        root / "git",
        lambda: run([*git, "commit", "-qm", "x", "--allow-empty"]),
    )
    yield Lane("tar", lambda: run(["tar", "-cf", str(root / "all.tar"), "-C", str(tree), "."]), root / "all.tar")
    modes: dict[str, Secrets] = {"engram": "withhold", "engram, secrets kept": "keep"}
    for name, secrets in modes.items():
        kept = root / secrets
        own = Workspaces(brain.store, Scope(secrets), brain.redactor, brain.sources, Objects(kept))
        own.create("tree", tree, secrets=secrets)

        def snapshot(own: Workspaces = own) -> None:
            assert not own.snapshot("tree").skipped

        yield Lane(name, snapshot, kept)


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})


def measure(size: int, root: Path, *, diffs: bool) -> list[dict[str, object]]:
    """Return one row per step and lane, measured side by side."""
    dice, tree = random.Random(1), root / "tree"
    tree.mkdir()
    files = make(tree, size, dice)
    some = dice.sample(files, max(1, len(files) // 100))
    whole = {"new": size, "0% changed": 0}
    steps: dict[str, Sequence[Path]] = {"new": (), "0% changed": (), "1% changed": some, "100% changed": files}
    results: list[dict[str, object]] = []
    print(f"{len(files):,} files, {weight(tree) / 1e6:,.0f} MB", flush=True)
    with engram.open(root / "bench.db", embedder="hashing") as brain:
        compared = list(lanes(root, tree, brain))
        for step, changed in steps.items():
            whole[step] = edit(changed) if changed else whole[step]
            time.sleep(SETTLES)
            base = 0.0
            for lane in compared:
                before = weight(lane.store) if lane.name != "tar" and lane.store.exists() else 0
                took = seconds(lane.keep)
                base = base or took
                stored = weight(lane.store) - before
                lane.after()
                results.append(row(step, lane.name, took, base, stored))
            print(f"{step:14} files that differ: {whole[step] / 1e6:.1f} MB, edits: {len(changed) * len(EDIT)} bytes")
        if diffs:
            git = ["git", f"--git-dir={root / 'git'}", *GIT]
            took = seconds(lambda: run([*git, "repack", "-adfq"]))
            results.append(row("all as diffs", "git repack", took, took, weight(root / "git")))
        print(f"{'all by hash':14} {'engram':22} {weight(root / 'withhold') / 1e6:33.2f} MB stored", flush=True)
    return results


def row(step: str, lane: str, took: float, base: float, stored: int) -> dict[str, object]:
    """Print and return one line of the table."""
    print(f"{step:14} {lane:22} {took:8.2f} s {took / base:7.2f} x git {stored / 1e6:9.2f} MB stored", flush=True)
    return {"step": step, "lane": lane, "seconds": round(took, 3), "x_git": round(took / base, 2), "stored": stored}


def main() -> None:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=bytes_of, default=10**9, metavar="SIZE", help="such as 200MB or 1GB")
    parser.add_argument("--folder", type=Path, default=Path(), help="on the disk to measure; five times the size free")
    parser.add_argument("--diffs", action="store_true", help="also repack what git has as diffs")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(dir=arguments.folder.resolve(), prefix=".bench-"))
    try:
        results = measure(arguments.size, root, diffs=arguments.diffs)
    finally:
        shutil.rmtree(root)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
