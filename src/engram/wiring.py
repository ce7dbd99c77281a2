"""The one place that names concrete classes and puts an Engram together."""

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
"""The stores whose rows can be sealed."""
CONVERTING = "converting"
_log = logging.getLogger("engram")
REDACTION_KEY = "redaction:key"
TRUSTED = "trusted.keys"
"""The file with the public keys that knowledge may be signed with."""


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
        redactor=choose_redactor(chosen, store),
        sources=sources,
        say=say or _log.warning,
        objects=open_objects(chosen),
        working=lambda: open_working(chosen.working, sources),
    )


def open_objects(settings: Settings) -> Objects | None:
    """The files of workspaces: in the folder that is set, else beside a SQLite database, else nowhere."""
    scheme, location = locate(settings.db)
    beside = f"{location}{SUFFIX}" if scheme == "sqlite" else ""
    folder = settings.objects or beside
    return Objects(Path(folder).expanduser(), durable=settings.durable) if folder else None


def choose_redactor(settings: Settings, store: Store) -> SecretRedactor:
    """The redactor that the settings describe; one secret has one placeholder in all of a database."""
    policy = {}
    for part in filter(None, (part.strip() for part in settings.redaction.split(","))):
        name, separator, action = (word.strip() for word in part.partition("="))
        if not separator:
            raise ConfigError(f"redaction: {part!r} does not say what is done; write it such as email=keep")
        policy[name] = action
    return SecretRedactor(
        rules=[Path(path.strip()).expanduser() for path in settings.redaction_rules.split(",") if path.strip()],
        policy=policy or None,
        key=lambda: _redaction_key(store),
        detectors=[find_plugin("detectors", name.strip())() for name in settings.detectors.split(",") if name.strip()],
    )


def _redaction_key(store: Store) -> bytes | None:
    """What placeholders are made with: drawn once for a database, and kept in it; none if it cannot be written."""
    if (known := store.setting(REDACTION_KEY)) is None:
        try:
            store.set_setting(REDACTION_KEY, secrets.token_hex(32))
        except StoreError as error:  # whoever only reads must be able to ask
            _log.info("placeholders are not told apart: %s", error)
            return None
        known = store.setting(REDACTION_KEY)
    return None if known is None else bytes.fromhex(known)


def open_store(settings: Settings, sources: Sources) -> Store:
    """The store that the database setting names."""
    scheme, location = locate(settings.db)
    vectors = LocalVectors()
    options: dict[str, Any] = {"durable": settings.durable, "busy_seconds": settings.busy_seconds}
    options |= encrypting(settings, scheme)
    if settings.vectors:
        options["remote"] = open_vectors(settings)
    return complete(find_plugin("stores", scheme)(location, vectors, sources, options))


def encrypting(settings: Settings, scheme: str) -> dict[str, Any]:
    """The options of an encrypted store; none if there is no key. Raises `Unsupported` for stores that cannot."""
    if settings.encryption not in {"none", "fields", "file", CONVERTING}:
        raise ConfigError(f"encryption is none, fields or file, not {settings.encryption!r}")
    if settings.encryption != "none" and scheme not in ENCRYPTS:
        raise Unsupported(f"a store of {scheme} cannot be encrypted here; use SQLite or PostgreSQL")
    if settings.encryption == "file" and scheme != "sqlite":
        raise Unsupported('only a SQLite file can be encrypted as a whole; use `encryption = "fields"`')
    if scheme not in ENCRYPTS or not (settings.key or settings.key_file or settings.encryption != "none"):
        return {}
    return {"cipher": keys.find(settings.key, settings.key_file), "encryption": settings.encryption}


def encrypt(settings: Settings, mode: str, progress: Callable[[int, int], None] | None = None) -> int:
    """Encrypt the database that the settings name, or go on with that; how many rows it has. Raises `Conflict`."""
    store = open_store(replace(settings, encryption=CONVERTING), Sources())
    try:
        if not isinstance(store, Encrypts):
            raise Unsupported("this store cannot be encrypted; use SQLite or PostgreSQL")
        how = store.encryption()["mode"]
        if how not in {"none", mode}:
            raise Conflict(f"it is encrypted already, as {how}", hint=Hint("db copy", "to a new database changes that"))
        if mode == "fields":
            return store.encrypt(progress)
        rows = int(store.info().get("memories") or 0) if isinstance(store, Maintains) else 0
    finally:
        store.close()
    if how == "none":
        recode(settings, settings)
    return rows


def recode(settings: Settings, renewed: Settings) -> None:
    """Encrypt a whole SQLite file with the key of other settings."""
    from engram.stores import file_encryption, sqlite  # noqa: PLC0415 - a store is imported when it is used
    from engram.stores.drivers import PURPOSE, whole_file  # noqa: PLC0415

    path = Path(locate(settings.db)[1]).expanduser()
    old, new = master_key(settings), master_key(renewed)
    file_encryption.recode(path, sqlite.driver_for(path, old, "none"), whole_file(new.derive(PURPOSE)))


def master_key(settings: Settings) -> MasterKey:
    """The master key that the settings name. Raises `ConfigError` if they name none."""
    found = keys.find(settings.key, settings.key_file)
    if found is None:
        raise ConfigError("there is no key; give one by the setting `key_file`, or as ENGRAM_KEY")
    return found


def open_vectors(settings: Settings) -> VectorStore:
    """The vector database that the settings name; it connects when it is first used."""
    kind = settings.vectors.partition(":")[0].partition("+")[0]
    vectors: VectorStore = find_plugin("vectors", kind)(settings.vectors, api_key=settings.vectors_key or None)
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
def opened(settings: Settings, db: str) -> Iterator[Store]:
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

    settings = config.load()
    cipher = keys.find(settings.key, settings.key_file)
    sqlite.restore(backup, target, Sources(), progress, cipher)


def keyring_folder() -> Path:
    """The folder with the keys of this user: the one that signs, and those that are trusted; made at the first need."""
    folder = config.default_db().parent
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def trusted_keys() -> dict[str, PublicKey]:
    """The keys that this user trusts to sign knowledge, by the installation each is trusted for."""
    from engram.transfer.signing import load_trusted  # noqa: PLC0415 - most who open a memory import nothing

    return load_trusted(keyring_folder() / TRUSTED)


def models(settings: Settings) -> Models:
    """The models on this machine."""
    own = [Path(settings.models).expanduser()] if settings.models else []
    return Models([*own, *default_folders()], target=own[0] if own else None)


def choose_embedder(settings: Settings, store: Store, say: Callable[[str], None]) -> Embedder:
    """The embedder that the settings name, or the best one that can be had."""
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
