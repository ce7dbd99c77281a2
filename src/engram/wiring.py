"""Build an `Engram` from settings; the only module that names the concrete classes."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engram import config
from engram.agents.workspaces.objects import SUFFIX, Objects
from engram.clock import Sources
from engram.config import Settings
from engram.embed.catalog import KNOWN
from engram.embed.models import Models, default_folders, resolve, warn_if_changed
from engram.engine import Engram
from engram.errors import ConfigError, Conflict, Hint, InvalidInput, MissingExtra, StoreError, Unsupported
from engram.ports import (
    Embedder,
    Encrypts,
    ExpiringStore,
    Maintains,
    Store,
    SyncsVectors,
    VectorStore,
)
from engram.ports.completed import complete
from engram.privacy import SecretRedactor, keys
from engram.privacy.cipher import MasterKey
from engram.stores.expiring import InProcessExpiring
from engram.stores.vectors.local import LocalVectors

if TYPE_CHECKING:
    from engram.transfer.signing import PublicKey

ENCRYPTS = frozenset({"sqlite", "postgresql", "postgres"})
"""The URL schemes of the stores that can be encrypted."""
CONVERTING = "converting"
"""The encryption mode in which a store is opened to be encrypted, whatever its mode is now."""
_log = logging.getLogger("engram")
REDACTION_KEY = "redaction:key"
TRUSTED = "trusted.keys"
"""The file with the public keys whose signatures on knowledge files are trusted."""


def open(
    db: str | Path | None = None,
    *,
    sources: Sources | None = None,
    say: Callable[[str], None] | None = None,
    **settings: Any,
) -> Engram:
    """Open a memory at a path, `sqlite:///…`, `:memory:` or another store's URL; by default that of the settings.

    Any setting can be passed by name. `say` is called with messages for the user, such as which embedder is in use;
    without it they are logged.
    """
    chosen = config.load({"db": db, **settings})
    if chosen.db == str(config.default_db()):
        config.default_db().parent.mkdir(parents=True, exist_ok=True)
    sources = sources or Sources()
    store = open_store(chosen, sources)
    if chosen.vectors and not isinstance(store, SyncsVectors):
        (say or _log.warning)("this store searches vectors itself; the setting `vectors` is ignored")
    return Engram(
        store,
        embedder=lambda: choose_embedder(chosen, store, say or _log.info),
        redactor=choose_redactor(chosen, store),
        sources=sources,
        say=say or _log.warning,
        objects=open_objects(chosen),
        working=lambda: open_working(chosen.working, sources),
    )


def open_objects(settings: Settings) -> Objects | None:
    """Open the file store of workspaces: the folder in the settings, else beside a SQLite database, else `None`."""
    scheme, location = locate(settings.db)
    beside = f"{location}{SUFFIX}" if scheme == "sqlite" else ""
    folder = settings.objects or beside
    return Objects(Path(folder).expanduser(), durable=settings.durable) if folder else None


def choose_redactor(settings: Settings, store: Store) -> SecretRedactor:
    """Build the redactor of the settings; within a database, the same secret always gets the same placeholder."""
    policy = {}
    for part in filter(None, (part.strip() for part in settings.redaction.split(","))):
        name, separator, action = (word.strip() for word in part.partition("="))
        if not separator:
            raise ConfigError(f"redaction: {part!r} has no action; write it as name=action, such as email=keep")
        policy[name] = action
    return SecretRedactor(
        rules=[Path(path.strip()).expanduser() for path in settings.redaction_rules.split(",") if path.strip()],
        policy=policy or None,
        key=lambda: _redaction_key(store),
        detectors=[find_plugin("detectors", name.strip())() for name in settings.detectors.split(",") if name.strip()],
    )


def _redaction_key(store: Store) -> bytes | None:
    """Return the key that placeholders are made with, created on first use; `None` if the store is read-only."""
    if (known := store.setting(REDACTION_KEY)) is None:
        try:
            store.set_setting(REDACTION_KEY, secrets.token_hex(32))
        except StoreError as error:  # queries must work on a read-only store, too
            _log.info("the redaction key cannot be stored, so placeholders have no fingerprint: %s", error)
            return None
        known = store.setting(REDACTION_KEY)
    return None if known is None else bytes.fromhex(known)


def open_store(settings: Settings, sources: Sources) -> Store:
    """Open the store of the setting `db`."""
    scheme, location = locate(settings.db)
    vectors = LocalVectors()
    options: dict[str, Any] = {"durable": settings.durable, "busy_seconds": settings.busy_seconds}
    options |= encryption_options(settings, scheme)
    if settings.vectors:
        options["remote"] = open_vectors(settings)
    return complete(find_plugin("stores", scheme)(location, vectors, sources, options))


def encryption_options(settings: Settings, scheme: str) -> dict[str, Any]:
    """Return the options of an encrypted store; empty without a key. Raises `Unsupported` for other stores."""
    if settings.encryption not in {"none", "fields", "file", CONVERTING}:
        raise ConfigError(f"encryption is none, fields or file, not {settings.encryption!r}")
    if settings.encryption != "none" and scheme not in ENCRYPTS:
        raise Unsupported(f"a {scheme} store cannot be encrypted; use SQLite or PostgreSQL")
    if settings.encryption == "file" and scheme != "sqlite":
        raise Unsupported('only a SQLite file can be encrypted as a whole; use `encryption = "fields"`')
    if scheme not in ENCRYPTS or not (settings.key or settings.key_file or settings.encryption != "none"):
        return {}
    return {"cipher": keys.find(settings.key, settings.key_file), "encryption": settings.encryption}


def encrypt(settings: Settings, mode: str, progress: Callable[[int, int], None] | None = None) -> int:
    """Encrypt the database of the settings, or resume it; return its number of rows. Raises `Conflict`."""
    store = open_store(replace(settings, encryption=CONVERTING), Sources())
    try:
        if not isinstance(store, Encrypts):
            raise Unsupported("this store cannot be encrypted; use SQLite or PostgreSQL")
        current = store.encryption()["mode"]
        if current not in {"none", mode}:
            raise Conflict(
                f"it is encrypted already, as {current}", hint=Hint("db copy", "to a new database changes that")
            )
        if mode == "fields":
            return store.encrypt(progress)
        rows = int(store.info().get("memories") or 0) if isinstance(store, Maintains) else 0
    finally:
        store.close()
    if current == "none":
        recode(settings, settings)
    return rows


def recode(settings: Settings, renewed: Settings) -> None:
    """Encrypt a whole SQLite file with the key of the settings `renewed`."""
    from engram.stores import file_encryption, sqlite  # noqa: PLC0415 - a store is imported when it is used
    from engram.stores.drivers import PURPOSE, whole_file  # noqa: PLC0415

    path = Path(locate(settings.db)[1]).expanduser()
    old, new = master_key(settings), master_key(renewed)
    file_encryption.recode(path, sqlite.driver_for(path, old, "none"), whole_file(new.derive(PURPOSE)))


def master_key(settings: Settings) -> MasterKey:
    """Return the master key of the settings. Raises `ConfigError` if there is none."""
    found = keys.find(settings.key, settings.key_file)
    if found is None:
        raise ConfigError("there is no key; set `key_file` or ENGRAM_KEY")
    return found


def open_vectors(settings: Settings) -> VectorStore:
    """Open the vector database of the settings; it connects on first use."""
    kind = settings.vectors.partition(":")[0].partition("+")[0]
    vectors: VectorStore = find_plugin("vectors", kind)(settings.vectors, api_key=settings.vectors_key or None)
    return vectors


def open_working(url: str = "", sources: Sources | None = None) -> ExpiringStore:
    """Open the store of working memory: in this process, or the Redis or Valkey server at a URL."""
    if not url:
        return InProcessExpiring(sources or Sources())
    try:
        from engram.stores.redis import RedisExpiring  # noqa: PLC0415 - a store is imported when it is used
    except ImportError as error:
        raise MissingExtra(f"redis is not installed ({error}); pip install 'engram-learning[redis]'") from error
    return RedisExpiring(url)


@contextmanager
def opened(settings: Settings, db: str) -> Iterator[Store]:
    """Open the store `db` with the other settings unchanged, and close it afterwards."""
    store = open_store(replace(settings, db=db), Sources())
    try:
        yield store
    finally:
        store.close()


def locate(db: str) -> tuple[str, str]:
    """Split the name of a database into its scheme and location."""
    if db in {":memory:", "memory:", "memory://", "sqlite://", "sqlite:///:memory:"}:
        return "memory", ""
    scheme, separator, location = db.partition("://")
    if not separator:
        return "sqlite", db
    return (scheme, location.removeprefix("/")) if scheme == "sqlite" else (scheme, db)


def restore(backup: Path, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
    """Replace the SQLite database `target` by `backup` atomically."""
    from engram.stores import sqlite  # noqa: PLC0415 - a store is imported when it is used

    settings = config.load()
    cipher = keys.find(settings.key, settings.key_file)
    sqlite.restore(backup, target, Sources(), progress, cipher)


def keyring_folder() -> Path:
    """Return the folder with this user's signing key and trusted keys; it is created if it does not exist."""
    folder = config.default_db().parent
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def trusted_keys() -> dict[str, PublicKey]:
    """Return the keys whose signatures on knowledge this user trusts, by the installation each is trusted for."""
    from engram.transfer.signing import load_trusted  # noqa: PLC0415 - only needed to import knowledge

    return load_trusted(keyring_folder() / TRUSTED)


def models(settings: Settings) -> Models:
    """Return the embedding models on this machine."""
    own = [Path(settings.models).expanduser()] if settings.models else []
    return Models([*own, *default_folders()], target=own[0] if own else None)


def choose_embedder(settings: Settings, store: Store, say: Callable[[str], None]) -> Embedder:
    """Load the embedder of the settings, or the best one available."""
    remembered = store.embedder()
    if settings.embedder in {"auto", "local", *KNOWN}:
        embedder = resolve(settings.embedder, models(settings), remembered, settings.model_download, say)
    else:
        kind, _, argument = settings.embedder.partition(":")
        embedder = find_plugin("embedders", kind, also=("auto", "local", *KNOWN))(
            argument, key=settings.embedder_key or None
        )
    warn_if_changed(remembered, embedder, say)
    return embedder


_PLUGIN_NAMES = {"stores": "store", "vectors": "vector database", "embedders": "embedder", "detectors": "detector"}


def find_plugin(group: str, name: str, also: Iterable[str] = ()) -> Any:
    """Load what a package registered as `name` in the entry-point group `engram.<group>`.

    `also` are other valid names, for the error message. Raises `InvalidInput` and `MissingExtra`.
    """
    found = {point.name: point for point in entry_points(group=f"engram.{group}")}
    if name not in found:
        known = ", ".join([*also, *sorted(found)]) or "none (is engram-learning installed?)"
        raise InvalidInput(f"there is no {_PLUGIN_NAMES[group]} called {name!r}; there are: {known}")
    return _load(found[name])


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except ImportError as error:
        raise MissingExtra(f"{point.name} needs a package that is not installed ({error}); install it") from error
