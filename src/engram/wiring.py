"""The one place that names concrete classes and puts an Engram together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from engram import config, plugins
from engram.config import Settings
from engram.embed.known import KNOWN
from engram.embed.models import Models, default_folders, notice, resolve
from engram.engine import Engram
from engram.errors import MissingExtra
from engram.ids import Sources
from engram.lifecycle.objects import Objects
from engram.ports import Embedder, ExpiringStore, MemoryStore, MirrorsVectors, SyncsVectors, VectorStore
from engram.privacy import SecretRedactor
from engram.stores.expiring import InProcessExpiring
from engram.vectors.local import LocalVectors

_log = logging.getLogger("engram")


def open(
    db: str | Path | None = None,
    *,
    sources: Sources | None = None,
    say: Callable[[str], None] | None = None,
    **settings: Any,
) -> Engram:
    """Open a memory: a path, `sqlite:///…`, `:memory:`, another store's URL; nothing means the settings decide.

    Any setting can be given by name. `say` hears what a person should know, such as which embedder is in use.
    """
    chosen = config.load({"db": db, **settings})
    if chosen.db == str(config.default_db()):
        config.default_db().parent.mkdir(parents=True, exist_ok=True)
    sources = sources or Sources()
    store = open_store(chosen, sources)
    if chosen.vectors and not isinstance(store, SyncsVectors):
        (say or _log.warning)("this store searches its vectors itself; the setting `vectors` is not used")
    return Engram(
        store,
        embedder=lambda: choose_embedder(chosen, store, say or _log.info),
        redactor=SecretRedactor(),
        sources=sources,
        say=say or _log.warning,
        objects=objects_beside(chosen),
    )


def objects_beside(settings: Settings) -> Objects | None:
    """The files of workspaces, in a folder beside a SQLite database; other databases have no place for them."""
    scheme, location = locate(settings.db)
    return Objects(Path(f"{location}.objects"), durable=settings.durable) if scheme == "sqlite" else None


def open_store(settings: Settings, sources: Sources) -> MemoryStore:
    """The store that the database setting names."""
    scheme, location = locate(settings.db)
    vectors = LocalVectors()
    options: dict[str, Any] = {"durable": settings.durable, "busy_seconds": settings.busy_seconds}
    if settings.vectors:
        options["remote"] = open_vectors(settings)
    store: MemoryStore = plugins.find("stores", scheme)(location, vectors, sources, options)
    return store


def open_vectors(settings: Settings) -> VectorStore:
    """The vector database that the settings name; it connects when it is first used."""
    kind = settings.vectors.partition(":")[0].partition("+")[0]
    vectors: VectorStore = plugins.find("vectors", kind)(settings.vectors, api_key=settings.vectors_key or None)
    return vectors


def open_working(url: str = "", sources: Sources | None = None) -> ExpiringStore:
    """Where working memory is kept: in this process, or on the Redis or Valkey that a URL names."""
    if not url:
        return InProcessExpiring(sources or Sources())
    try:
        from engram.stores.redis import RedisExpiring  # noqa: PLC0415 - a store is imported when it is used
    except ImportError as error:
        raise MissingExtra(f"redis is not installed ({error}); pip install 'engram-learning[redis]'") from error
    return RedisExpiring(url)


@contextmanager
def opened(settings: Settings, db: str) -> Iterator[MemoryStore]:
    """Another store than the one in the settings, for as long as it is needed."""
    store = open_store(replace(settings, db=db), Sources())
    try:
        yield store
    finally:
        store.close()


def locate(db: str) -> tuple[str, str]:
    """The scheme and the location in a database's name."""
    if db in {":memory:", "memory:", "memory://", "sqlite://", "sqlite:///:memory:"}:
        return "memory", ""
    scheme, separator, location = db.partition("://")
    if not separator:
        return "sqlite", db
    return (scheme, location.removeprefix("/")) if scheme == "sqlite" else (scheme, db)


def restore(backup: Path, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
    """Make the SQLite database `target` what `backup` is, in one step."""
    from engram.stores import sqlite  # noqa: PLC0415 - a store is imported when it is used

    sqlite.restore(backup, target, Sources(), progress)


def models(settings: Settings) -> Models:
    """The models on this machine."""
    own = [Path(settings.models).expanduser()] if settings.models else []
    return Models([*own, *default_folders()], target=own[0] if own else None)


def choose_embedder(settings: Settings, store: MemoryStore, say: Callable[[str], None]) -> Embedder:
    """The embedder that the settings name, or the best one that can be had."""
    remembered = store.embedder() if isinstance(store, MirrorsVectors) else None
    if settings.embedder in {"auto", "local", *KNOWN}:
        embedder = resolve(settings.embedder, models(settings), remembered, settings.model_download, say)
    else:
        kind, _, argument = settings.embedder.partition(":")
        embedder = plugins.find("embedders", kind, also=("auto", "local", *KNOWN))(
            argument, key=settings.embedder_key or None
        )
    notice(remembered, embedder, say)
    return embedder
