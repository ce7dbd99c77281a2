"""The wheel, installed alone with what it requires, works."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS_ONLY = (
    "chromadb",
    "psycopg",
    "pymilvus",
    "pinecone",
    "qdrant_client",
    "redis",
    "sentence_transformers",
    "weaviate",
)

IMPORT_ALL = """
import importlib, pkgutil, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ImportError(f"{name} is not installed")
sys.meta_path.insert(0, Absent())
import engram.errors
for module in pkgutil.walk_packages(engram.__path__, "engram.", onerror=lambda name: None):
    if ".migrations." not in module.name and not module.name.startswith("engram.testing"):
        try:
            importlib.import_module(module.name)
        except engram.errors.MissingExtra as error:  # an adapter of one such package, which says what to install
            assert "pip install" in str(error), error
print(sorted(sys.modules))
"""


def run(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_imports_without_any_extra() -> None:
    loaded = run(IMPORT_ALL, *EXTRAS_ONLY)
    assert "'engram.stores.sqlite'" in loaded
    assert [name for name in EXTRAS_ONLY if f"'{name}'" in loaded] == []


def test_importing_engram_is_cheap() -> None:
    heavy = ("pydantic", "sqlalchemy", "numpy", "onnxruntime", "alembic", "rich", "click")
    loaded = run("import sys, engram; engram.__version__; print(sorted(sys.modules))")
    assert [name for name in heavy if f"'{name}'" in loaded] == []


@pytest.mark.slow
def test_the_wheel_holds_everything_and_installs_into_an_empty_environment(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True)
    (wheel,) = tmp_path.glob("engram_learning-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        "engram/py.typed",
        "engram/privacy/rules.toml",
        "engram/stores/migrations/env.py",
        "engram/stores/migrations/versions/0001_foundation.py",
    ):
        assert needed in names
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)]
    subprocess.run(install, check=True)
    script = "import engram; b = engram.open('x.db'); print(b.agent('a').remember('hello').status); b.close()"
    done = subprocess.run([str(python), "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.stdout.strip(), done.returncode) == ("stored", 0), done.stderr
    command = [str(tmp_path / "venv" / "bin" / "engram"), "--version"]
    assert "engram" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
