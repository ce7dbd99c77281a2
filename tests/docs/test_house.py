"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "engram"


def test_only_the_redactor_and_the_stores_make_clean_text() -> None:
    allowed = {"privacy/redactor.py", "stores/rows.py", "stores/sealing.py", "model/clean.py"}
    allowed |= {"learning/situations/everyday_texts.py"}  # texts of our own
    makers = set()
    for file in SOURCE.rglob("*.py"):
        name = file.relative_to(SOURCE).as_posix()
        if name.startswith("testing/"):
            continue
        calls = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        for call in calls:
            makes = isinstance(call.func, ast.Name) and call.func.id == "Clean"
            if makes and not (isinstance(call.args[0], ast.Constant) and call.args[0].value == ""):
                makers.add(name)
    assert makers <= allowed


def test_the_environment_is_read_in_one_module() -> None:
    readers = {
        file.relative_to(SOURCE).as_posix()
        for file in SOURCE.rglob("*.py")
        if re.search(r"os\.environ\.get|os\.getenv|os\.environ\[", file.read_text(encoding="utf-8"))
    }
    assert readers <= {"config.py"}


def test_every_sql_statement_on_memories_names_the_scope() -> None:
    """What reads across agents does so on purpose, and is listed here."""
    across = {"unembedded", "count_unembedded", "discard_vectors", "agents", "check", "_check_rows", "rebuild", "info"}
    across |= {"page", "begin_copy", "take", "end_copy", "sync"}
    stores = SOURCE / "stores"
    for file in (*sorted((stores / "sql").glob("*.py")), stores / "sqlite.py", stores / "postgres.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for function in [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]:
            body = ast.unparse(function)
            touches = re.search(r"(HYDRATE|select\(|\.delete\(\)|\.update\(\)\.where)", body)
            if touches and function.name not in across and "memories" in body:
                assert "agent" in body or "conditions(scope" in body, f"{file.name}: {function.name}"


def test_unit_tests_are_where_their_module_is() -> None:
    """tests/unit/<package>/test_<module>.py is about that module, test_<module>_<aspect>.py about one side of it.

    A file may be named after its package, too, if it is about the whole of it.
    """
    units = Path(__file__).parents[1] / "unit"
    lost = []
    for file in sorted(units.rglob("test_*.py")):
        package = SOURCE / file.parent.relative_to(units)
        modules = {path.stem for path in package.rglob("*") if path.suffix == ".py" or path.is_dir()}
        modules |= {package.name} if package.is_dir() else set()
        name = file.stem.removeprefix("test_")
        if not any(name == module or name.startswith(f"{module}_") for module in modules):
            lost.append(file.relative_to(units).as_posix())
    assert lost == []
