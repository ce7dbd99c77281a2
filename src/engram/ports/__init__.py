"""The interfaces between the engine and its stores, models and keys.

They are small protocols: methods take and return batches, results keep the order of the arguments, missing is `None`.
"""

import warnings

from engram.model.bundle import MAX_NAME
from engram.ports.arguments import RESERVED, is_unit, reserved, units, unstorable
from engram.ports.audit import AuditAction, acting, as_agents, doing, principal
from engram.ports.embedding import Embedder, Matrix, Purpose, Vector
from engram.ports.encryption import Cipher, Seal
from engram.ports.redaction import Redactor
from engram.ports.sessions import ClearsSessions, ExpiringStore, Volatile
from engram.ports.stores import (
    Annotates,
    ClosesKeys,
    Copies,
    CountsAccess,
    CreditsRecalls,
    DeletesEvents,
    DeletesRecalls,
    DeletesScopes,
    Encrypts,
    FindsDerived,
    KeepsApiKeys,
    KeepsAudit,
    KeepsEvents,
    KeepsSettings,
    ListsAgents,
    ListsChanges,
    LogsRecalls,
    Maintains,
    MemoryStore,
    MirrorsVectors,
    PreviewsAdds,
    ReadsNeighbours,
    Scrubs,
    Snapshots,
    Store,
    Versions,
)
from engram.ports.values import (
    FORGOTTEN,
    LONG_TERM,
    Cells,
    Changes,
    Cleaned,
    Credit,
    Entry,
    Event,
    Filter,
    IntegrityProblem,
    LoggedRecall,
    Match,
    MemoryChange,
    MirrorMatch,
    Placed,
    Query,
    RankingInput,
    Scope,
    TableChecksum,
    TermCounts,
    secrets_among,
)
from engram.ports.vectors import SyncsVectors, VectorSpace, VectorStore

__all__ = [
    "FORGOTTEN",
    "LONG_TERM",
    "MAX_NAME",
    "RESERVED",
    "Annotates",
    "AuditAction",
    "Cells",
    "Changes",
    "Cipher",
    "Cleaned",
    "ClearsSessions",
    "ClosesKeys",
    "Copies",
    "CountsAccess",
    "Credit",
    "CreditsRecalls",
    "DeletesEvents",
    "DeletesRecalls",
    "DeletesScopes",
    "Embedder",
    "Encrypts",
    "Entry",
    "Event",
    "ExpiringStore",
    "Filter",
    "FindsDerived",
    "IntegrityProblem",
    "KeepsApiKeys",
    "KeepsAudit",
    "KeepsEvents",
    "KeepsSettings",
    "ListsAgents",
    "ListsChanges",
    "LoggedRecall",
    "LogsRecalls",
    "Maintains",
    "Match",
    "Matrix",
    "MemoryChange",
    "MemoryStore",
    "MirrorMatch",
    "MirrorsVectors",
    "Placed",
    "PreviewsAdds",
    "Purpose",
    "Query",
    "RankingInput",
    "ReadsNeighbours",
    "Redactor",
    "Scope",
    "Scrubs",
    "Seal",
    "Snapshots",
    "Store",
    "SyncsVectors",
    "TableChecksum",
    "TermCounts",
    "Vector",
    "VectorSpace",
    "VectorStore",
    "Versions",
    "Volatile",
    "acting",
    "as_agents",
    "doing",
    "is_unit",
    "principal",
    "reserved",
    "secrets_among",
    "units",
    "unstorable",
]

_RENAMED = {
    "Change": "MemoryChange",
    "Deed": "AuditAction",
    "ErasesEvents": "DeletesEvents",
    "ErasesShown": "DeletesRecalls",
    "Foresees": "PreviewsAdds",
    "Glimpse": "RankingInput",
    "KeepsKeys": "KeepsApiKeys",
    "Problem": "IntegrityProblem",
    "RemembersShown": "LogsRecalls",
    "Shelf": "VectorSpace",
    "Shown": "LoggedRecall",
    "Spread": "TermCounts",
    "Surveys": "ReadsNeighbours",
    "Tally": "TableChecksum",
    "TellsChanges": "ListsChanges",
    "Vacates": "DeletesScopes",
}


def __getattr__(name: str) -> object:
    """Return a class by its former name, with a `DeprecationWarning`."""
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"engram.ports.{name} is now {_RENAMED[name]}", DeprecationWarning, stacklevel=2)
    return globals()[_RENAMED[name]]
