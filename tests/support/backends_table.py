"""A pytest plugin: which back end keeps which contract, verified how, as a table made by the test run.

    pytest --backends-table docs/backends.md

rewrites what is between the two marks of that page. A test class that runs a contract says of itself what the table
should say: `backend` (what it is called) and `verified` (what it was run against).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

BEGIN, END = "<!-- backends: made by the tests -->", "<!-- backends: end -->"
CONTRACTS = {
    "MemoryStoreContract": "store",
    "DurableStoreContract": "durable store",
    "VectorStoreContract": "vectors",
    "ExpiringStoreContract": "expiring values",
    "EmbedderContract": "embedder",
}
REALLY = "for real"
Outcome = Literal["passed", "failed", "skipped"]
_OUTPUT = "engram_backends"


class Ran(NamedTuple):
    """One test of a contract, run on one back end."""

    contract: str
    backend: str
    verified: str
    outcome: Outcome


def ran(cls: type | None, name: str, outcome: Outcome) -> list[Ran]:
    """What the outcome of a test of this class and name says about each contract that the test comes from."""
    if cls is None:
        return []
    backend = str(getattr(cls, "backend", None) or _spoken(cls.__name__))
    verified = str(getattr(cls, "verified", REALLY))
    return [
        Ran(CONTRACTS[base.__name__], backend, verified, outcome)
        for base in cls.__mro__
        if base.__name__ in CONTRACTS and name in vars(base)
    ]


def _spoken(name: str) -> str:
    """A class name as words: `TestRedisStoreKeepsTheContract` is about a redis store."""
    short = re.sub(r"^Test(An?(?=[A-Z]))?|Keeps?(The|Its)Contract$|OutlivesItsProcess$|Reopened$", "", name)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", short or name)


def render(results: Iterable[Ran]) -> str:
    """The table, sorted, the same for the same results in any order."""
    counts: dict[tuple[str, str, str], Counter[Outcome]] = {}
    for result in results:
        counts.setdefault((result.contract, result.backend, result.verified), Counter())[result.outcome] += 1
    order = list(CONTRACTS.values())
    rows = [
        f"| {backend} | {contract} | {verified} | {_summary(count)} |"
        for (contract, backend, verified), count in sorted(
            counts.items(), key=lambda row: (order.index(row[0][0]), row[0][1].casefold(), row[0])
        )
    ]
    return "\n".join(["| back end | contract | verified how | tests |", "|---|---|---|---|", *rows])


def _summary(count: Counter[Outcome]) -> str:
    words: list[Outcome] = ["passed", "failed", "skipped"]
    return ", ".join(f"{count[word]} {word}" for word in words if count[word])


def rewritten(page: str, table: str) -> str:
    """The page with another table between the marks. Raises `ValueError` without exactly one pair of them."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError(f"there must be one {BEGIN} and one {END} after it")
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}"


# The plugin ----------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("engram")
    group.addoption("--backends-table", metavar="FILE", type=Path, help="write the table of back ends into this page")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(config), "backends-table-recorder")


class Recorder:
    """Collects results where the tests run, and writes the table where the run is directed from."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._results: list[Ran] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        report: pytest.TestReport = yield
        # A test counts once: when it was called, or when its fixtures kept it from being called.
        if isinstance(item, pytest.Function) and (report.when == "call" or not report.passed):
            self._results += ran(item.cls, item.originalname, report.outcome)
        return report

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Called by pytest-xdist when a worker has finished."""
        self._results += [Ran(*row) for row in getattr(node, "workeroutput", {}).get(_OUTPUT, ())]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output: dict[str, Sequence[Sequence[str]]] | None = getattr(self._config, "workeroutput", None)
        page: Path | None = self._config.getoption("--backends-table")
        if output is not None:
            output[_OUTPUT] = [list(row) for row in self._results]
        elif page is not None and self._results:
            text = rewritten(page.read_text(encoding="utf-8"), render(self._results))
            page.write_text(text, encoding="utf-8")
