"""The worked example does what its page says: it is killed twice, does nothing twice, and gets better."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "mender.py"
PAGE = ROOT / "docs" / "example.md"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def story() -> str:
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_agent_is_killed_twice_and_resumes_what_was_interrupted(story: str) -> None:
    assert len(re.findall(r"\*\*\* killed right after it (?:proposed|made) an edit", story)) == 2
    resumed = re.findall(r"cycle (\d+) \(\S+\) was interrupted; cycle (\d+) (makes the edit|only tests)", story)
    assert [what for *_, what in resumed] == ["makes the edit", "only tests"]
    assert all(int(after) == int(before) + 1 for before, after, _ in resumed)


def test_no_edit_is_made_twice(story: str) -> None:
    ends = re.findall(r"(\d+) attempts, (\d+) kills, (\d+) edits made twice", story)
    assert [(kills, twice) for _, kills, twice in ends] == [("2", "0"), ("0", "0")]
    cycles = [int(cycle) for cycle in re.findall(r"^ +cycle (\d+): ", story, re.MULTILINE)]
    assert cycles == sorted(set(cycles))


def test_the_second_run_needs_fewer_attempts_than_the_first_and_than_without_memory(story: str) -> None:
    first, second = (int(count) for count in re.findall(r"(\d+) attempts, \d+ kills", story))
    rows = re.findall(r"^  (\S.*?) {2,}([\d.]+) +([\d.]+)$", story, re.MULTILINE)
    counts = {title: (float(shop), float(depot)) for title, shop, depot in rows}
    assert counts.pop("first and second run") == (first, second)
    assert second < first
    assert len(counts) == 3
    assert all(second < depot for _, depot in counts.values())


def test_all_four_memories_are_used(story: str) -> None:
    assert re.search(r"working: [1-9]\d* turns", story)
    assert "the last time: Mend the package shop. All tests pass" in story
    assert re.search(r"semantic: [1-9]\d* facts", story)
    assert re.search(r"procedural: .*\(used [1-9]\d* times\)", story)
    assert re.search(r"cycle \d+: \S+ \(skill mend-\w+\)\n +cured", story)


def test_its_page_shows_what_it_prints(story: str) -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert shown.strip() == story.strip()
