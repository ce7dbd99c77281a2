from __future__ import annotations

import random
from pathlib import Path

import pytest

from engram.testing import DurableStoreContract, MemoryStoreContract
from support.backends_table import BEGIN, END, Ran, ran, render, rewritten

pytest_plugins = ["pytester"]

TESTS = """
import pytest
from engram.testing import EmbedderContract

class Half(EmbedderContract):
    backend, verified = "half", "on paper"

    @pytest.fixture
    def embedder(self):
        pytest.skip("there is none")

class TestHalf(Half):
    def test_something_of_its_own(self):
        pass

class TestAThirdKeepsTheContract(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        raise RuntimeError("broken")
"""


class Both(MemoryStoreContract, DurableStoreContract):
    backend, verified = "PostgreSQL", "a real server"


def test_the_table_is_sorted_and_counts_each_outcome() -> None:
    results = [
        Ran("vectors", "Milvus", "for real", "passed"),
        Ran("store", "SQLite", "for real", "passed"),
        Ran("store", "SQLite", "for real", "failed"),
        Ran("store", "PostgreSQL", "a real server", "passed"),
        Ran("store", "PostgreSQL", "a real server", "passed"),
        Ran("store", "in memory", "for real", "skipped"),
    ]
    random.Random(1).shuffle(results)
    assert render(results).splitlines() == [
        "| back end | contract | verified how | tests |",
        "|---|---|---|---|",
        "| in memory | store | for real | 1 skipped |",
        "| PostgreSQL | store | a real server | 2 passed |",
        "| SQLite | store | for real | 1 passed, 1 failed |",
        "| Milvus | vectors | for real | 1 passed |",
    ]


def test_a_test_counts_for_the_contract_it_comes_from_and_for_no_other() -> None:
    stored = next(name for name in vars(MemoryStoreContract) if name.startswith("test_"))
    durable = next(name for name in vars(DurableStoreContract) if name.startswith("test_"))
    assert ran(Both, stored, "passed") == [Ran("store", "PostgreSQL", "a real server", "passed")]
    assert ran(Both, durable, "failed") == [Ran("durable store", "PostgreSQL", "a real server", "failed")]
    assert ran(Both, "test_something_of_its_own", "passed") == []
    assert ran(None, stored, "passed") == []


@pytest.mark.parametrize(
    ("name", "spoken"),
    [
        ("TestRedisStoreKeepsTheContract", "Redis Store"),
        ("TestAChromaServerKeepsTheContract", "Chroma Server"),
        ("TestExactVectorsKeepTheContract", "Exact Vectors"),
        ("TestPostgresReopened", "Postgres"),
        ("TestArcticKeepsTheContract", "Arctic"),
    ],
)
def test_a_class_without_a_name_of_its_own_is_called_after_itself(name: str, spoken: str) -> None:
    stored = next(name for name in vars(MemoryStoreContract) if name.startswith("test_"))
    assert ran(type(name, (MemoryStoreContract,), {}), stored, "passed")[0].backend == spoken


def test_only_what_is_between_the_marks_changes() -> None:
    page = f"# Title\n\n{BEGIN}\nold\n{END}\n\nThe end.\n"
    once = rewritten(page, "| new |")
    assert once == f"# Title\n\n{BEGIN}\n\n| new |\n\n{END}\n\nThe end.\n"
    assert rewritten(once, "| new |") == once


@pytest.mark.parametrize("page", ["", BEGIN, END, f"{END}{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_one_pair_of_marks_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="there must be one"):
        rewritten(page, "")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [["-p", "no:xdist"], ["-n", "2"]], ids=["alone", "with workers"])
def test_a_run_writes_its_table(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: list[str]) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makepyfile(TESTS)
    page = pytester.path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    pytester.runpytest_subprocess("-p", "support.backends_table", "--backends-table", str(page), *workers)
    rows = page.read_text(encoding="utf-8").splitlines()[4:-2]
    assert [row.rpartition("|")[0].rpartition("|")[0] for row in rows] == [
        "| half | embedder | on paper ",
        "| Third | embedder | for real ",
    ]
    assert "skipped" in rows[0]
    assert "failed" in rows[1]
