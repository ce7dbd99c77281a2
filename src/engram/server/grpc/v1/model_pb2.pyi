from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Origin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORIGIN_UNSPECIFIED: _ClassVar[Origin]
    ORIGIN_SELF: _ClassVar[Origin]
    ORIGIN_TOOL: _ClassVar[Origin]
    ORIGIN_SHARED: _ClassVar[Origin]
    ORIGIN_IMPORTED: _ClassVar[Origin]

class MemoryType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMORY_TYPE_UNSPECIFIED: _ClassVar[MemoryType]
    MEMORY_TYPE_DECISION: _ClassVar[MemoryType]
    MEMORY_TYPE_FAILURE: _ClassVar[MemoryType]
    MEMORY_TYPE_SUCCESS: _ClassVar[MemoryType]
    MEMORY_TYPE_COLLABORATION: _ClassVar[MemoryType]
    MEMORY_TYPE_KNOWLEDGE: _ClassVar[MemoryType]
    MEMORY_TYPE_OBSERVATION: _ClassVar[MemoryType]
    MEMORY_TYPE_REFLECTION: _ClassVar[MemoryType]
    MEMORY_TYPE_PLAN: _ClassVar[MemoryType]
    MEMORY_TYPE_RESULT: _ClassVar[MemoryType]
    MEMORY_TYPE_MESSAGE: _ClassVar[MemoryType]
    MEMORY_TYPE_PROCEDURE: _ClassVar[MemoryType]

class ReceiptStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECEIPT_STATUS_UNSPECIFIED: _ClassVar[ReceiptStatus]
    RECEIPT_STATUS_STORED: _ClassVar[ReceiptStatus]
    RECEIPT_STATUS_MERGED: _ClassVar[ReceiptStatus]
    RECEIPT_STATUS_REJECTED: _ClassVar[ReceiptStatus]
    RECEIPT_STATUS_QUARANTINED: _ClassVar[ReceiptStatus]

class RemedyKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REMEDY_KIND_UNSPECIFIED: _ClassVar[RemedyKind]
    REMEDY_KIND_SOLUTION: _ClassVar[RemedyKind]
    REMEDY_KIND_ACTION: _ClassVar[RemedyKind]

class VerdictDecision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_DECISION_UNSPECIFIED: _ClassVar[VerdictDecision]
    VERDICT_DECISION_ALLOW: _ClassVar[VerdictDecision]
    VERDICT_DECISION_WARN: _ClassVar[VerdictDecision]
    VERDICT_DECISION_BLOCK: _ClassVar[VerdictDecision]

class CheckStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHECK_STATUS_UNSPECIFIED: _ClassVar[CheckStatus]
    CHECK_STATUS_ACTIVE: _ClassVar[CheckStatus]
    CHECK_STATUS_LOOSENED: _ClassVar[CheckStatus]
    CHECK_STATUS_RETIRED: _ClassVar[CheckStatus]

class Period(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PERIOD_UNSPECIFIED: _ClassVar[Period]
    PERIOD_DAY: _ClassVar[Period]
    PERIOD_WEEK: _ClassVar[Period]
    PERIOD_MONTH: _ClassVar[Period]

class CycleStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CYCLE_STATUS_UNSPECIFIED: _ClassVar[CycleStatus]
    CYCLE_STATUS_OPEN: _ClassVar[CycleStatus]
    CYCLE_STATUS_DONE: _ClassVar[CycleStatus]
    CYCLE_STATUS_FAILED: _ClassVar[CycleStatus]
    CYCLE_STATUS_ABANDONED: _ClassVar[CycleStatus]
    CYCLE_STATUS_RETRIED: _ClassVar[CycleStatus]

class SecretsPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SECRETS_POLICY_UNSPECIFIED: _ClassVar[SecretsPolicy]
    SECRETS_POLICY_WITHHOLD: _ClassVar[SecretsPolicy]
    SECRETS_POLICY_KEEP: _ClassVar[SecretsPolicy]

class FileKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FILE_KIND_UNSPECIFIED: _ClassVar[FileKind]
    FILE_KIND_FILE: _ClassVar[FileKind]
    FILE_KIND_LINK: _ClassVar[FileKind]
    FILE_KIND_FOLDER: _ClassVar[FileKind]

class ChangeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHANGE_KIND_UNSPECIFIED: _ClassVar[ChangeKind]
    CHANGE_KIND_ADDED: _ClassVar[ChangeKind]
    CHANGE_KIND_REMOVED: _ClassVar[ChangeKind]
    CHANGE_KIND_CHANGED: _ClassVar[ChangeKind]
    CHANGE_KIND_MODE: _ClassVar[ChangeKind]
    CHANGE_KIND_RENAMED: _ClassVar[ChangeKind]

class StepStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_STATUS_UNSPECIFIED: _ClassVar[StepStatus]
    STEP_STATUS_PENDING: _ClassVar[StepStatus]
    STEP_STATUS_DONE: _ClassVar[StepStatus]
    STEP_STATUS_FAILED: _ClassVar[StepStatus]
    STEP_STATUS_SKIPPED: _ClassVar[StepStatus]
    STEP_STATUS_INTERRUPTED: _ClassVar[StepStatus]
    STEP_STATUS_BLOCKED: _ClassVar[StepStatus]

class RunStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATUS_UNSPECIFIED: _ClassVar[RunStatus]
    RUN_STATUS_DONE: _ClassVar[RunStatus]
    RUN_STATUS_FAILED: _ClassVar[RunStatus]
    RUN_STATUS_BLOCKED: _ClassVar[RunStatus]
    RUN_STATUS_INTERRUPTED: _ClassVar[RunStatus]

class Audience(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AUDIENCE_UNSPECIFIED: _ClassVar[Audience]
    AUDIENCE_AGENT: _ClassVar[Audience]
    AUDIENCE_GROUP: _ClassVar[Audience]
    AUDIENCE_EVERYONE: _ClassVar[Audience]

class GrantRight(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GRANT_RIGHT_UNSPECIFIED: _ClassVar[GrantRight]
    GRANT_RIGHT_READ: _ClassVar[GrantRight]
    GRANT_RIGHT_LEARN: _ClassVar[GrantRight]
    GRANT_RIGHT_RESHARE: _ClassVar[GrantRight]

class GrantState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GRANT_STATE_UNSPECIFIED: _ClassVar[GrantState]
    GRANT_STATE_REQUESTED: _ClassVar[GrantState]
    GRANT_STATE_OFFERED: _ClassVar[GrantState]
    GRANT_STATE_GRANTED: _ClassVar[GrantState]
    GRANT_STATE_DENIED: _ClassVar[GrantState]
    GRANT_STATE_REVOKED: _ClassVar[GrantState]
    GRANT_STATE_EXPIRED: _ClassVar[GrantState]

class SourceKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SOURCE_KIND_UNSPECIFIED: _ClassVar[SourceKind]
    SOURCE_KIND_GRANT: _ClassVar[SourceKind]
    SOURCE_KIND_IMPORT: _ClassVar[SourceKind]

class FileVerificationStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FILE_VERIFICATION_STATUS_UNSPECIFIED: _ClassVar[FileVerificationStatus]
    FILE_VERIFICATION_STATUS_VALID: _ClassVar[FileVerificationStatus]
    FILE_VERIFICATION_STATUS_INVALID: _ClassVar[FileVerificationStatus]
    FILE_VERIFICATION_STATUS_UNSIGNED: _ClassVar[FileVerificationStatus]
    FILE_VERIFICATION_STATUS_UNKNOWN: _ClassVar[FileVerificationStatus]

class PatternSourceKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PATTERN_SOURCE_KIND_UNSPECIFIED: _ClassVar[PatternSourceKind]
    PATTERN_SOURCE_KIND_GRANT: _ClassVar[PatternSourceKind]
    PATTERN_SOURCE_KIND_IMPORT: _ClassVar[PatternSourceKind]
ORIGIN_UNSPECIFIED: Origin
ORIGIN_SELF: Origin
ORIGIN_TOOL: Origin
ORIGIN_SHARED: Origin
ORIGIN_IMPORTED: Origin
MEMORY_TYPE_UNSPECIFIED: MemoryType
MEMORY_TYPE_DECISION: MemoryType
MEMORY_TYPE_FAILURE: MemoryType
MEMORY_TYPE_SUCCESS: MemoryType
MEMORY_TYPE_COLLABORATION: MemoryType
MEMORY_TYPE_KNOWLEDGE: MemoryType
MEMORY_TYPE_OBSERVATION: MemoryType
MEMORY_TYPE_REFLECTION: MemoryType
MEMORY_TYPE_PLAN: MemoryType
MEMORY_TYPE_RESULT: MemoryType
MEMORY_TYPE_MESSAGE: MemoryType
MEMORY_TYPE_PROCEDURE: MemoryType
RECEIPT_STATUS_UNSPECIFIED: ReceiptStatus
RECEIPT_STATUS_STORED: ReceiptStatus
RECEIPT_STATUS_MERGED: ReceiptStatus
RECEIPT_STATUS_REJECTED: ReceiptStatus
RECEIPT_STATUS_QUARANTINED: ReceiptStatus
REMEDY_KIND_UNSPECIFIED: RemedyKind
REMEDY_KIND_SOLUTION: RemedyKind
REMEDY_KIND_ACTION: RemedyKind
VERDICT_DECISION_UNSPECIFIED: VerdictDecision
VERDICT_DECISION_ALLOW: VerdictDecision
VERDICT_DECISION_WARN: VerdictDecision
VERDICT_DECISION_BLOCK: VerdictDecision
CHECK_STATUS_UNSPECIFIED: CheckStatus
CHECK_STATUS_ACTIVE: CheckStatus
CHECK_STATUS_LOOSENED: CheckStatus
CHECK_STATUS_RETIRED: CheckStatus
PERIOD_UNSPECIFIED: Period
PERIOD_DAY: Period
PERIOD_WEEK: Period
PERIOD_MONTH: Period
CYCLE_STATUS_UNSPECIFIED: CycleStatus
CYCLE_STATUS_OPEN: CycleStatus
CYCLE_STATUS_DONE: CycleStatus
CYCLE_STATUS_FAILED: CycleStatus
CYCLE_STATUS_ABANDONED: CycleStatus
CYCLE_STATUS_RETRIED: CycleStatus
SECRETS_POLICY_UNSPECIFIED: SecretsPolicy
SECRETS_POLICY_WITHHOLD: SecretsPolicy
SECRETS_POLICY_KEEP: SecretsPolicy
FILE_KIND_UNSPECIFIED: FileKind
FILE_KIND_FILE: FileKind
FILE_KIND_LINK: FileKind
FILE_KIND_FOLDER: FileKind
CHANGE_KIND_UNSPECIFIED: ChangeKind
CHANGE_KIND_ADDED: ChangeKind
CHANGE_KIND_REMOVED: ChangeKind
CHANGE_KIND_CHANGED: ChangeKind
CHANGE_KIND_MODE: ChangeKind
CHANGE_KIND_RENAMED: ChangeKind
STEP_STATUS_UNSPECIFIED: StepStatus
STEP_STATUS_PENDING: StepStatus
STEP_STATUS_DONE: StepStatus
STEP_STATUS_FAILED: StepStatus
STEP_STATUS_SKIPPED: StepStatus
STEP_STATUS_INTERRUPTED: StepStatus
STEP_STATUS_BLOCKED: StepStatus
RUN_STATUS_UNSPECIFIED: RunStatus
RUN_STATUS_DONE: RunStatus
RUN_STATUS_FAILED: RunStatus
RUN_STATUS_BLOCKED: RunStatus
RUN_STATUS_INTERRUPTED: RunStatus
AUDIENCE_UNSPECIFIED: Audience
AUDIENCE_AGENT: Audience
AUDIENCE_GROUP: Audience
AUDIENCE_EVERYONE: Audience
GRANT_RIGHT_UNSPECIFIED: GrantRight
GRANT_RIGHT_READ: GrantRight
GRANT_RIGHT_LEARN: GrantRight
GRANT_RIGHT_RESHARE: GrantRight
GRANT_STATE_UNSPECIFIED: GrantState
GRANT_STATE_REQUESTED: GrantState
GRANT_STATE_OFFERED: GrantState
GRANT_STATE_GRANTED: GrantState
GRANT_STATE_DENIED: GrantState
GRANT_STATE_REVOKED: GrantState
GRANT_STATE_EXPIRED: GrantState
SOURCE_KIND_UNSPECIFIED: SourceKind
SOURCE_KIND_GRANT: SourceKind
SOURCE_KIND_IMPORT: SourceKind
FILE_VERIFICATION_STATUS_UNSPECIFIED: FileVerificationStatus
FILE_VERIFICATION_STATUS_VALID: FileVerificationStatus
FILE_VERIFICATION_STATUS_INVALID: FileVerificationStatus
FILE_VERIFICATION_STATUS_UNSIGNED: FileVerificationStatus
FILE_VERIFICATION_STATUS_UNKNOWN: FileVerificationStatus
PATTERN_SOURCE_KIND_UNSPECIFIED: PatternSourceKind
PATTERN_SOURCE_KIND_GRANT: PatternSourceKind
PATTERN_SOURCE_KIND_IMPORT: PatternSourceKind

class Interval(_message.Message):
    __slots__ = ("low", "high")
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    low: float
    high: float
    def __init__(self, low: _Optional[float] = ..., high: _Optional[float] = ...) -> None: ...

class Texts(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, items: _Optional[_Iterable[str]] = ...) -> None: ...

class Provenance(_message.Message):
    __slots__ = ("author", "session", "role", "speaker", "sources", "origin")
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    author: str
    session: str
    role: str
    speaker: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    origin: Origin
    def __init__(self, author: _Optional[str] = ..., session: _Optional[str] = ..., role: _Optional[str] = ..., speaker: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ..., origin: _Optional[_Union[Origin, str]] = ...) -> None: ...

class Content(_message.Message):
    __slots__ = ("decision", "failure", "success", "collaboration", "knowledge", "observation", "reflection", "plan", "result", "message", "procedure")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    COLLABORATION_FIELD_NUMBER: _ClassVar[int]
    KNOWLEDGE_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    REFLECTION_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PROCEDURE_FIELD_NUMBER: _ClassVar[int]
    decision: DecisionContent
    failure: FailureContent
    success: SuccessContent
    collaboration: CollaborationContent
    knowledge: KnowledgeContent
    observation: ObservationContent
    reflection: ReflectionContent
    plan: PlanContent
    result: ResultContent
    message: MessageContent
    procedure: ProcedureContent
    def __init__(self, decision: _Optional[_Union[DecisionContent, _Mapping]] = ..., failure: _Optional[_Union[FailureContent, _Mapping]] = ..., success: _Optional[_Union[SuccessContent, _Mapping]] = ..., collaboration: _Optional[_Union[CollaborationContent, _Mapping]] = ..., knowledge: _Optional[_Union[KnowledgeContent, _Mapping]] = ..., observation: _Optional[_Union[ObservationContent, _Mapping]] = ..., reflection: _Optional[_Union[ReflectionContent, _Mapping]] = ..., plan: _Optional[_Union[PlanContent, _Mapping]] = ..., result: _Optional[_Union[ResultContent, _Mapping]] = ..., message: _Optional[_Union[MessageContent, _Mapping]] = ..., procedure: _Optional[_Union[ProcedureContent, _Mapping]] = ...) -> None: ...

class DecisionContent(_message.Message):
    __slots__ = ("decision_context", "chosen_action", "outcome_quality", "alternative_actions", "environment", "tool", "task_type", "error", "duration", "cost", "lent", "informed_by")
    DECISION_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_ACTION_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_QUALITY_FIELD_NUMBER: _ClassVar[int]
    ALTERNATIVE_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    LENT_FIELD_NUMBER: _ClassVar[int]
    INFORMED_BY_FIELD_NUMBER: _ClassVar[int]
    decision_context: str
    chosen_action: str
    outcome_quality: float
    alternative_actions: _containers.RepeatedScalarFieldContainer[str]
    environment: str
    tool: str
    task_type: str
    error: str
    duration: float
    cost: float
    lent: bool
    informed_by: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, decision_context: _Optional[str] = ..., chosen_action: _Optional[str] = ..., outcome_quality: _Optional[float] = ..., alternative_actions: _Optional[_Iterable[str]] = ..., environment: _Optional[str] = ..., tool: _Optional[str] = ..., task_type: _Optional[str] = ..., error: _Optional[str] = ..., duration: _Optional[float] = ..., cost: _Optional[float] = ..., lent: bool = ..., informed_by: _Optional[_Iterable[str]] = ...) -> None: ...

class FailureContent(_message.Message):
    __slots__ = ("error_signature", "root_cause", "solution_applied", "prevention_strategy", "error", "solution_helped", "action", "environment", "tool", "task_type")
    ERROR_SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    ROOT_CAUSE_FIELD_NUMBER: _ClassVar[int]
    SOLUTION_APPLIED_FIELD_NUMBER: _ClassVar[int]
    PREVENTION_STRATEGY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SOLUTION_HELPED_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    error_signature: str
    root_cause: str
    solution_applied: str
    prevention_strategy: str
    error: str
    solution_helped: float
    action: str
    environment: str
    tool: str
    task_type: str
    def __init__(self, error_signature: _Optional[str] = ..., root_cause: _Optional[str] = ..., solution_applied: _Optional[str] = ..., prevention_strategy: _Optional[str] = ..., error: _Optional[str] = ..., solution_helped: _Optional[float] = ..., action: _Optional[str] = ..., environment: _Optional[str] = ..., tool: _Optional[str] = ..., task_type: _Optional[str] = ...) -> None: ...

class SuccessContent(_message.Message):
    __slots__ = ("context_signature", "successful_approach", "key_factors", "replication_steps")
    CONTEXT_SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    SUCCESSFUL_APPROACH_FIELD_NUMBER: _ClassVar[int]
    KEY_FACTORS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_STEPS_FIELD_NUMBER: _ClassVar[int]
    context_signature: str
    successful_approach: str
    key_factors: _containers.RepeatedScalarFieldContainer[str]
    replication_steps: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, context_signature: _Optional[str] = ..., successful_approach: _Optional[str] = ..., key_factors: _Optional[_Iterable[str]] = ..., replication_steps: _Optional[_Iterable[str]] = ...) -> None: ...

class CollaborationContent(_message.Message):
    __slots__ = ("partner_agents", "interaction_type", "outcome", "lessons_learned")
    PARTNER_AGENTS_FIELD_NUMBER: _ClassVar[int]
    INTERACTION_TYPE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    LESSONS_LEARNED_FIELD_NUMBER: _ClassVar[int]
    partner_agents: _containers.RepeatedScalarFieldContainer[str]
    interaction_type: str
    outcome: str
    lessons_learned: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, partner_agents: _Optional[_Iterable[str]] = ..., interaction_type: _Optional[str] = ..., outcome: _Optional[str] = ..., lessons_learned: _Optional[_Iterable[str]] = ...) -> None: ...

class KnowledgeContent(_message.Message):
    __slots__ = ("domain", "knowledge_type", "expertise_level", "related_entities", "subject", "predicate", "object")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    KNOWLEDGE_TYPE_FIELD_NUMBER: _ClassVar[int]
    EXPERTISE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    RELATED_ENTITIES_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    domain: str
    knowledge_type: str
    expertise_level: str
    related_entities: _containers.RepeatedScalarFieldContainer[str]
    subject: str
    predicate: str
    object: str
    def __init__(self, domain: _Optional[str] = ..., knowledge_type: _Optional[str] = ..., expertise_level: _Optional[str] = ..., related_entities: _Optional[_Iterable[str]] = ..., subject: _Optional[str] = ..., predicate: _Optional[str] = ..., object: _Optional[str] = ...) -> None: ...

class ObservationContent(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReflectionContent(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PlanContent(_message.Message):
    __slots__ = ("steps",)
    STEPS_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, steps: _Optional[_Iterable[str]] = ...) -> None: ...

class ResultContent(_message.Message):
    __slots__ = ("ok", "error", "artifacts")
    OK_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    ok: bool
    error: str
    artifacts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ok: bool = ..., error: _Optional[str] = ..., artifacts: _Optional[_Iterable[str]] = ...) -> None: ...

class MessageContent(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ProcedureContent(_message.Message):
    __slots__ = ("steps",)
    STEPS_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, steps: _Optional[_Iterable[str]] = ...) -> None: ...

class Memory(_message.Message):
    __slots__ = ("id", "agent", "kind", "text", "content", "context", "tags", "metadata", "provenance", "importance", "confidence", "trust", "created_at", "happened_at", "valid_from", "valid_until", "last_accessed", "access_count", "success_rate", "evidence", "version")
    ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    HAPPENED_AT_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    LAST_ACCESSED_FIELD_NUMBER: _ClassVar[int]
    ACCESS_COUNT_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_RATE_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    agent: str
    kind: MemoryType
    text: str
    content: Content
    context: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    metadata: _struct_pb2.Struct
    provenance: Provenance
    importance: float
    confidence: float
    trust: float
    created_at: _timestamp_pb2.Timestamp
    happened_at: _timestamp_pb2.Timestamp
    valid_from: _timestamp_pb2.Timestamp
    valid_until: _timestamp_pb2.Timestamp
    last_accessed: _timestamp_pb2.Timestamp
    access_count: int
    success_rate: float
    evidence: int
    version: int
    def __init__(self, id: _Optional[str] = ..., agent: _Optional[str] = ..., kind: _Optional[_Union[MemoryType, str]] = ..., text: _Optional[str] = ..., content: _Optional[_Union[Content, _Mapping]] = ..., context: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., provenance: _Optional[_Union[Provenance, _Mapping]] = ..., importance: _Optional[float] = ..., confidence: _Optional[float] = ..., trust: _Optional[float] = ..., created_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., happened_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., valid_from: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., valid_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., last_accessed: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., access_count: _Optional[int] = ..., success_rate: _Optional[float] = ..., evidence: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("id", "status", "reason", "code", "redacted")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    REDACTED_FIELD_NUMBER: _ClassVar[int]
    id: str
    status: ReceiptStatus
    reason: str
    code: str
    redacted: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., status: _Optional[_Union[ReceiptStatus, str]] = ..., reason: _Optional[str] = ..., code: _Optional[str] = ..., redacted: _Optional[_Iterable[str]] = ...) -> None: ...

class Receipts(_message.Message):
    __slots__ = ("receipts",)
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    receipts: _containers.RepeatedCompositeFieldContainer[Receipt]
    def __init__(self, receipts: _Optional[_Iterable[_Union[Receipt, _Mapping]]] = ...) -> None: ...

class ForgetReceipt(_message.Message):
    __slots__ = ("id", "forgotten", "removed", "lingers")
    class RemovedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    LINGERS_FIELD_NUMBER: _ClassVar[int]
    id: str
    forgotten: bool
    removed: _containers.ScalarMap[str, int]
    lingers: bool
    def __init__(self, id: _Optional[str] = ..., forgotten: bool = ..., removed: _Optional[_Mapping[str, int]] = ..., lingers: bool = ...) -> None: ...

class ScorePart(_message.Message):
    __slots__ = ("count", "amount", "text")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    count: int
    amount: float
    text: str
    def __init__(self, count: _Optional[int] = ..., amount: _Optional[float] = ..., text: _Optional[str] = ...) -> None: ...

class Hit(_message.Message):
    __slots__ = ("id", "memory", "score", "why", "session", "recall")
    class WhyEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ScorePart
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ScorePart, _Mapping]] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RECALL_FIELD_NUMBER: _ClassVar[int]
    id: str
    memory: Memory
    score: float
    why: _containers.MessageMap[str, ScorePart]
    session: str
    recall: str
    def __init__(self, id: _Optional[str] = ..., memory: _Optional[_Union[Memory, _Mapping]] = ..., score: _Optional[float] = ..., why: _Optional[_Mapping[str, ScorePart]] = ..., session: _Optional[str] = ..., recall: _Optional[str] = ...) -> None: ...

class Recalled(_message.Message):
    __slots__ = ("id", "hits")
    ID_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    id: str
    hits: _containers.RepeatedCompositeFieldContainer[Hit]
    def __init__(self, id: _Optional[str] = ..., hits: _Optional[_Iterable[_Union[Hit, _Mapping]]] = ...) -> None: ...

class ContextText(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class ActionRecord(_message.Message):
    __slots__ = ("action", "success_rate", "interval", "attempts", "last_used", "episodes_for", "episodes_against", "similar", "near", "weight")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_RATE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    LAST_USED_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FOR_FIELD_NUMBER: _ClassVar[int]
    EPISODES_AGAINST_FIELD_NUMBER: _ClassVar[int]
    SIMILAR_FIELD_NUMBER: _ClassVar[int]
    NEAR_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    action: str
    success_rate: float
    interval: Interval
    attempts: int
    last_used: _timestamp_pb2.Timestamp
    episodes_for: _containers.RepeatedScalarFieldContainer[str]
    episodes_against: _containers.RepeatedScalarFieldContainer[str]
    similar: int
    near: _containers.RepeatedScalarFieldContainer[str]
    weight: float
    def __init__(self, action: _Optional[str] = ..., success_rate: _Optional[float] = ..., interval: _Optional[_Union[Interval, _Mapping]] = ..., attempts: _Optional[int] = ..., last_used: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., episodes_for: _Optional[_Iterable[str]] = ..., episodes_against: _Optional[_Iterable[str]] = ..., similar: _Optional[int] = ..., near: _Optional[_Iterable[str]] = ..., weight: _Optional[float] = ...) -> None: ...

class Suggestion(_message.Message):
    __slots__ = ("context", "recommended", "abstained", "reason", "actions", "confidence", "evidence", "id", "situation")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    RECOMMENDED_FIELD_NUMBER: _ClassVar[int]
    ABSTAINED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    SITUATION_FIELD_NUMBER: _ClassVar[int]
    context: str
    recommended: str
    abstained: bool
    reason: str
    actions: _containers.RepeatedCompositeFieldContainer[ActionRecord]
    confidence: float
    evidence: _containers.RepeatedScalarFieldContainer[str]
    id: str
    situation: str
    def __init__(self, context: _Optional[str] = ..., recommended: _Optional[str] = ..., abstained: bool = ..., reason: _Optional[str] = ..., actions: _Optional[_Iterable[_Union[ActionRecord, _Mapping]]] = ..., confidence: _Optional[float] = ..., evidence: _Optional[_Iterable[str]] = ..., id: _Optional[str] = ..., situation: _Optional[str] = ...) -> None: ...

class Prediction(_message.Message):
    __slots__ = ("context", "action", "probability", "interval", "attempts", "similar", "weight", "evidence")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SIMILAR_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    context: str
    action: str
    probability: float
    interval: Interval
    attempts: int
    similar: int
    weight: float
    evidence: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, context: _Optional[str] = ..., action: _Optional[str] = ..., probability: _Optional[float] = ..., interval: _Optional[_Union[Interval, _Mapping]] = ..., attempts: _Optional[int] = ..., similar: _Optional[int] = ..., weight: _Optional[float] = ..., evidence: _Optional[_Iterable[str]] = ...) -> None: ...

class KnownFailure(_message.Message):
    __slots__ = ("pattern_id", "name", "error_signature", "action", "context", "similarity", "failures", "successes", "last_seen", "episodes", "example")
    PATTERN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ERROR_SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    SUCCESSES_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    pattern_id: str
    name: str
    error_signature: str
    action: str
    context: str
    similarity: float
    failures: int
    successes: int
    last_seen: _timestamp_pb2.Timestamp
    episodes: _containers.RepeatedScalarFieldContainer[str]
    example: str
    def __init__(self, pattern_id: _Optional[str] = ..., name: _Optional[str] = ..., error_signature: _Optional[str] = ..., action: _Optional[str] = ..., context: _Optional[str] = ..., similarity: _Optional[float] = ..., failures: _Optional[int] = ..., successes: _Optional[int] = ..., last_seen: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., episodes: _Optional[_Iterable[str]] = ..., example: _Optional[str] = ...) -> None: ...

class Remedy(_message.Message):
    __slots__ = ("kind", "text", "success_rate", "attempts", "episodes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_RATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    kind: RemedyKind
    text: str
    success_rate: float
    attempts: int
    episodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[_Union[RemedyKind, str]] = ..., text: _Optional[str] = ..., success_rate: _Optional[float] = ..., attempts: _Optional[int] = ..., episodes: _Optional[_Iterable[str]] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("decision", "action", "context", "failures", "instead", "confidence", "failure_rate", "reason", "checks", "learned_by", "id")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    INSTEAD_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_RATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    LEARNED_BY_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    decision: VerdictDecision
    action: str
    context: str
    failures: _containers.RepeatedCompositeFieldContainer[KnownFailure]
    instead: _containers.RepeatedCompositeFieldContainer[Remedy]
    confidence: float
    failure_rate: float
    reason: str
    checks: _containers.RepeatedScalarFieldContainer[str]
    learned_by: str
    id: str
    def __init__(self, decision: _Optional[_Union[VerdictDecision, str]] = ..., action: _Optional[str] = ..., context: _Optional[str] = ..., failures: _Optional[_Iterable[_Union[KnownFailure, _Mapping]]] = ..., instead: _Optional[_Iterable[_Union[Remedy, _Mapping]]] = ..., confidence: _Optional[float] = ..., failure_rate: _Optional[float] = ..., reason: _Optional[str] = ..., checks: _Optional[_Iterable[str]] = ..., learned_by: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class RecordedOutcome(_message.Message):
    __slots__ = ("at", "quality", "error", "duration", "cost")
    AT_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    at: _timestamp_pb2.Timestamp
    quality: float
    error: str
    duration: float
    cost: float
    def __init__(self, at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., quality: _Optional[float] = ..., error: _Optional[str] = ..., duration: _Optional[float] = ..., cost: _Optional[float] = ...) -> None: ...

class Noted(_message.Message):
    __slots__ = ("news",)
    NEWS_FIELD_NUMBER: _ClassVar[int]
    news: bool
    def __init__(self, news: bool = ...) -> None: ...

class Solution(_message.Message):
    __slots__ = ("text", "tried", "helped", "success_rate", "interval", "last_used", "agents", "episodes", "noted")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TRIED_FIELD_NUMBER: _ClassVar[int]
    HELPED_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_RATE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    LAST_USED_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    NOTED_FIELD_NUMBER: _ClassVar[int]
    text: str
    tried: int
    helped: float
    success_rate: float
    interval: Interval
    last_used: _timestamp_pb2.Timestamp
    agents: _containers.RepeatedScalarFieldContainer[str]
    episodes: _containers.RepeatedScalarFieldContainer[str]
    noted: int
    def __init__(self, text: _Optional[str] = ..., tried: _Optional[int] = ..., helped: _Optional[float] = ..., success_rate: _Optional[float] = ..., interval: _Optional[_Union[Interval, _Mapping]] = ..., last_used: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., agents: _Optional[_Iterable[str]] = ..., episodes: _Optional[_Iterable[str]] = ..., noted: _Optional[int] = ...) -> None: ...

class FailureRate(_message.Message):
    __slots__ = ("opportunities", "failures", "rate", "interval")
    OPPORTUNITIES_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    opportunities: int
    failures: float
    rate: float
    interval: Interval
    def __init__(self, opportunities: _Optional[int] = ..., failures: _Optional[float] = ..., rate: _Optional[float] = ..., interval: _Optional[_Union[Interval, _Mapping]] = ...) -> None: ...

class Effect(_message.Message):
    __slots__ = ("before", "after", "difference", "interval", "helps", "went_ahead", "false_alarms", "heeded", "ignored", "right")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    HELPS_FIELD_NUMBER: _ClassVar[int]
    WENT_AHEAD_FIELD_NUMBER: _ClassVar[int]
    FALSE_ALARMS_FIELD_NUMBER: _ClassVar[int]
    HEEDED_FIELD_NUMBER: _ClassVar[int]
    IGNORED_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    before: FailureRate
    after: FailureRate
    difference: float
    interval: Interval
    helps: float
    went_ahead: int
    false_alarms: int
    heeded: FailureRate
    ignored: FailureRate
    right: float
    def __init__(self, before: _Optional[_Union[FailureRate, _Mapping]] = ..., after: _Optional[_Union[FailureRate, _Mapping]] = ..., difference: _Optional[float] = ..., interval: _Optional[_Union[Interval, _Mapping]] = ..., helps: _Optional[float] = ..., went_ahead: _Optional[int] = ..., false_alarms: _Optional[int] = ..., heeded: _Optional[_Union[FailureRate, _Mapping]] = ..., ignored: _Optional[_Union[FailureRate, _Mapping]] = ..., right: _Optional[float] = ...) -> None: ...

class PreventionCheck(_message.Message):
    __slots__ = ("id", "name", "pattern_id", "verify", "rule", "stage", "command", "status", "created_at", "fired", "last_fired", "runs", "passed", "effect", "source")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATTERN_ID_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    FIRED_FIELD_NUMBER: _ClassVar[int]
    LAST_FIRED_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    pattern_id: str
    verify: str
    rule: str
    stage: str
    command: Texts
    status: CheckStatus
    created_at: _timestamp_pb2.Timestamp
    fired: int
    last_fired: _timestamp_pb2.Timestamp
    runs: int
    passed: int
    effect: Effect
    source: PatternSource
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., pattern_id: _Optional[str] = ..., verify: _Optional[str] = ..., rule: _Optional[str] = ..., stage: _Optional[str] = ..., command: _Optional[_Union[Texts, _Mapping]] = ..., status: _Optional[_Union[CheckStatus, str]] = ..., created_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., fired: _Optional[int] = ..., last_fired: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., runs: _Optional[int] = ..., passed: _Optional[int] = ..., effect: _Optional[_Union[Effect, _Mapping]] = ..., source: _Optional[_Union[PatternSource, _Mapping]] = ...) -> None: ...

class PatternSource(_message.Message):
    __slots__ = ("name", "kind", "id", "trust", "reshare")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    RESHARE_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: PatternSourceKind
    id: str
    trust: float
    reshare: bool
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[PatternSourceKind, str]] = ..., id: _Optional[str] = ..., trust: _Optional[float] = ..., reshare: bool = ...) -> None: ...

class OwnRecord(_message.Message):
    __slots__ = ("attempts", "quality", "success_rate", "interval")
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_RATE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    attempts: int
    quality: float
    success_rate: float
    interval: Interval
    def __init__(self, attempts: _Optional[int] = ..., quality: _Optional[float] = ..., success_rate: _Optional[float] = ..., interval: _Optional[_Union[Interval, _Mapping]] = ...) -> None: ...

class FailurePattern(_message.Message):
    __slots__ = ("pattern_id", "name", "error_signature", "kind", "occurrence_count", "first_seen", "last_seen", "recurring", "actions", "contexts", "environments", "known_solutions", "prevention_checks", "episodes", "agents", "source", "own", "example")
    PATTERN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ERROR_SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OCCURRENCE_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEEN_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_FIELD_NUMBER: _ClassVar[int]
    RECURRING_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    CONTEXTS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENTS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_SOLUTIONS_FIELD_NUMBER: _ClassVar[int]
    PREVENTION_CHECKS_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    pattern_id: str
    name: str
    error_signature: str
    kind: str
    occurrence_count: int
    first_seen: _timestamp_pb2.Timestamp
    last_seen: _timestamp_pb2.Timestamp
    recurring: bool
    actions: _containers.RepeatedScalarFieldContainer[str]
    contexts: _containers.RepeatedScalarFieldContainer[str]
    environments: _containers.RepeatedScalarFieldContainer[str]
    known_solutions: _containers.RepeatedCompositeFieldContainer[Solution]
    prevention_checks: _containers.RepeatedCompositeFieldContainer[PreventionCheck]
    episodes: _containers.RepeatedScalarFieldContainer[str]
    agents: _containers.RepeatedScalarFieldContainer[str]
    source: PatternSource
    own: OwnRecord
    example: str
    def __init__(self, pattern_id: _Optional[str] = ..., name: _Optional[str] = ..., error_signature: _Optional[str] = ..., kind: _Optional[str] = ..., occurrence_count: _Optional[int] = ..., first_seen: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., last_seen: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., recurring: bool = ..., actions: _Optional[_Iterable[str]] = ..., contexts: _Optional[_Iterable[str]] = ..., environments: _Optional[_Iterable[str]] = ..., known_solutions: _Optional[_Iterable[_Union[Solution, _Mapping]]] = ..., prevention_checks: _Optional[_Iterable[_Union[PreventionCheck, _Mapping]]] = ..., episodes: _Optional[_Iterable[str]] = ..., agents: _Optional[_Iterable[str]] = ..., source: _Optional[_Union[PatternSource, _Mapping]] = ..., own: _Optional[_Union[OwnRecord, _Mapping]] = ..., example: _Optional[str] = ...) -> None: ...

class KeyFactor(_message.Message):
    __slots__ = ("feature", "effect", "interval", "log_odds", "support", "without", "p_value", "corrected_p", "good_with", "good_without")
    FEATURE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    LOG_ODDS_FIELD_NUMBER: _ClassVar[int]
    SUPPORT_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_FIELD_NUMBER: _ClassVar[int]
    P_VALUE_FIELD_NUMBER: _ClassVar[int]
    CORRECTED_P_FIELD_NUMBER: _ClassVar[int]
    GOOD_WITH_FIELD_NUMBER: _ClassVar[int]
    GOOD_WITHOUT_FIELD_NUMBER: _ClassVar[int]
    feature: str
    effect: float
    interval: Interval
    log_odds: float
    support: int
    without: int
    p_value: float
    corrected_p: float
    good_with: float
    good_without: float
    def __init__(self, feature: _Optional[str] = ..., effect: _Optional[float] = ..., interval: _Optional[_Union[Interval, _Mapping]] = ..., log_odds: _Optional[float] = ..., support: _Optional[int] = ..., without: _Optional[int] = ..., p_value: _Optional[float] = ..., corrected_p: _Optional[float] = ..., good_with: _Optional[float] = ..., good_without: _Optional[float] = ...) -> None: ...

class Contrast(_message.Message):
    __slots__ = ("failures", "risk_factors", "missing_steps", "other_attempts", "other_rate", "advantage")
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    RISK_FACTORS_FIELD_NUMBER: _ClassVar[int]
    MISSING_STEPS_FIELD_NUMBER: _ClassVar[int]
    OTHER_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    OTHER_RATE_FIELD_NUMBER: _ClassVar[int]
    ADVANTAGE_FIELD_NUMBER: _ClassVar[int]
    failures: _containers.RepeatedScalarFieldContainer[str]
    risk_factors: _containers.RepeatedCompositeFieldContainer[KeyFactor]
    missing_steps: _containers.RepeatedScalarFieldContainer[str]
    other_attempts: int
    other_rate: float
    advantage: float
    def __init__(self, failures: _Optional[_Iterable[str]] = ..., risk_factors: _Optional[_Iterable[_Union[KeyFactor, _Mapping]]] = ..., missing_steps: _Optional[_Iterable[str]] = ..., other_attempts: _Optional[int] = ..., other_rate: _Optional[float] = ..., advantage: _Optional[float] = ...) -> None: ...

class SuccessPattern(_message.Message):
    __slots__ = ("pattern_id", "name", "context_signature", "successful_approach", "key_factors", "replication_steps", "success_rate", "interval", "attempts", "contrast", "last_seen", "episodes", "agents", "title", "step_runs", "source", "own")
    PATTERN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    SUCCESSFUL_APPROACH_FIELD_NUMBER: _ClassVar[int]
    KEY_FACTORS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_STEPS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_RATE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    CONTRAST_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    STEP_RUNS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    pattern_id: str
    name: str
    context_signature: str
    successful_approach: str
    key_factors: _containers.RepeatedCompositeFieldContainer[KeyFactor]
    replication_steps: _containers.RepeatedScalarFieldContainer[str]
    success_rate: float
    interval: Interval
    attempts: int
    contrast: Contrast
    last_seen: _timestamp_pb2.Timestamp
    episodes: _containers.RepeatedScalarFieldContainer[str]
    agents: _containers.RepeatedScalarFieldContainer[str]
    title: str
    step_runs: int
    source: PatternSource
    own: OwnRecord
    def __init__(self, pattern_id: _Optional[str] = ..., name: _Optional[str] = ..., context_signature: _Optional[str] = ..., successful_approach: _Optional[str] = ..., key_factors: _Optional[_Iterable[_Union[KeyFactor, _Mapping]]] = ..., replication_steps: _Optional[_Iterable[str]] = ..., success_rate: _Optional[float] = ..., interval: _Optional[_Union[Interval, _Mapping]] = ..., attempts: _Optional[int] = ..., contrast: _Optional[_Union[Contrast, _Mapping]] = ..., last_seen: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., episodes: _Optional[_Iterable[str]] = ..., agents: _Optional[_Iterable[str]] = ..., title: _Optional[str] = ..., step_runs: _Optional[int] = ..., source: _Optional[_Union[PatternSource, _Mapping]] = ..., own: _Optional[_Union[OwnRecord, _Mapping]] = ...) -> None: ...

class BranchCondition(_message.Message):
    __slots__ = ("feature", "present")
    FEATURE_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    feature: str
    present: bool
    def __init__(self, feature: _Optional[str] = ..., present: bool = ...) -> None: ...

class DecisionBranch(_message.Message):
    __slots__ = ("conditions", "action", "success_rate", "interval", "attempts", "confidence", "abstained", "reason", "actions")
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_RATE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    ABSTAINED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    conditions: _containers.RepeatedCompositeFieldContainer[BranchCondition]
    action: str
    success_rate: float
    interval: Interval
    attempts: int
    confidence: float
    abstained: bool
    reason: str
    actions: _containers.RepeatedCompositeFieldContainer[ActionRecord]
    def __init__(self, conditions: _Optional[_Iterable[_Union[BranchCondition, _Mapping]]] = ..., action: _Optional[str] = ..., success_rate: _Optional[float] = ..., interval: _Optional[_Union[Interval, _Mapping]] = ..., attempts: _Optional[int] = ..., confidence: _Optional[float] = ..., abstained: bool = ..., reason: _Optional[str] = ..., actions: _Optional[_Iterable[_Union[ActionRecord, _Mapping]]] = ...) -> None: ...

class DecisionOutcome(_message.Message):
    __slots__ = ("episode", "action", "quality", "at", "agent")
    EPISODE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    episode: str
    action: str
    quality: float
    at: _timestamp_pb2.Timestamp
    agent: str
    def __init__(self, episode: _Optional[str] = ..., action: _Optional[str] = ..., quality: _Optional[float] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., agent: _Optional[str] = ...) -> None: ...

class DecisionTemplate(_message.Message):
    __slots__ = ("pattern_id", "context_signature", "decision_tree", "confidence_threshold", "success_history", "attempts", "title", "source", "own")
    PATTERN_ID_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    DECISION_TREE_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_HISTORY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    pattern_id: str
    context_signature: str
    decision_tree: _containers.RepeatedCompositeFieldContainer[DecisionBranch]
    confidence_threshold: float
    success_history: _containers.RepeatedCompositeFieldContainer[DecisionOutcome]
    attempts: int
    title: str
    source: PatternSource
    own: OwnRecord
    def __init__(self, pattern_id: _Optional[str] = ..., context_signature: _Optional[str] = ..., decision_tree: _Optional[_Iterable[_Union[DecisionBranch, _Mapping]]] = ..., confidence_threshold: _Optional[float] = ..., success_history: _Optional[_Iterable[_Union[DecisionOutcome, _Mapping]]] = ..., attempts: _Optional[int] = ..., title: _Optional[str] = ..., source: _Optional[_Union[PatternSource, _Mapping]] = ..., own: _Optional[_Union[OwnRecord, _Mapping]] = ...) -> None: ...

class Trend(_message.Message):
    __slots__ = ("baseline", "recent", "change", "interval", "decisions", "difference", "baseline_decisions", "recent_decisions", "changed_at", "p_value")
    BASELINE_FIELD_NUMBER: _ClassVar[int]
    RECENT_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCE_FIELD_NUMBER: _ClassVar[int]
    BASELINE_DECISIONS_FIELD_NUMBER: _ClassVar[int]
    RECENT_DECISIONS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_AT_FIELD_NUMBER: _ClassVar[int]
    P_VALUE_FIELD_NUMBER: _ClassVar[int]
    baseline: float
    recent: float
    change: float
    interval: Interval
    decisions: int
    difference: float
    baseline_decisions: int
    recent_decisions: int
    changed_at: _timestamp_pb2.Timestamp
    p_value: float
    def __init__(self, baseline: _Optional[float] = ..., recent: _Optional[float] = ..., change: _Optional[float] = ..., interval: _Optional[_Union[Interval, _Mapping]] = ..., decisions: _Optional[int] = ..., difference: _Optional[float] = ..., baseline_decisions: _Optional[int] = ..., recent_decisions: _Optional[int] = ..., changed_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., p_value: _Optional[float] = ...) -> None: ...

class Ratio(_message.Message):
    __slots__ = ("some", "all", "share", "interval")
    SOME_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    some: int
    all: int
    share: float
    interval: Interval
    def __init__(self, some: _Optional[int] = ..., all: _Optional[int] = ..., share: _Optional[float] = ..., interval: _Optional[_Union[Interval, _Mapping]] = ...) -> None: ...

class Calibration(_message.Message):
    __slots__ = ("decisions", "brier", "base_rate_brier", "calibration_error")
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    BRIER_FIELD_NUMBER: _ClassVar[int]
    BASE_RATE_BRIER_FIELD_NUMBER: _ClassVar[int]
    CALIBRATION_ERROR_FIELD_NUMBER: _ClassVar[int]
    decisions: int
    brier: float
    base_rate_brier: float
    calibration_error: float
    def __init__(self, decisions: _Optional[int] = ..., brier: _Optional[float] = ..., base_rate_brier: _Optional[float] = ..., calibration_error: _Optional[float] = ...) -> None: ...

class Spared(_message.Message):
    __slots__ = ("used", "compared", "failures", "interval", "rate_with", "rate_without")
    USED_FIELD_NUMBER: _ClassVar[int]
    COMPARED_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    RATE_WITH_FIELD_NUMBER: _ClassVar[int]
    RATE_WITHOUT_FIELD_NUMBER: _ClassVar[int]
    used: int
    compared: int
    failures: float
    interval: Interval
    rate_with: float
    rate_without: float
    def __init__(self, used: _Optional[int] = ..., compared: _Optional[int] = ..., failures: _Optional[float] = ..., interval: _Optional[_Union[Interval, _Mapping]] = ..., rate_with: _Optional[float] = ..., rate_without: _Optional[float] = ...) -> None: ...

class LearningStats(_message.Message):
    __slots__ = ("agents", "decisions", "with_outcome", "success_rate", "effectiveness", "utilization", "recognition", "transfer", "prevention", "failure_patterns", "recurring_patterns", "success_patterns", "checks", "calibration", "success_interval", "prevention_interval", "spared")
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    WITH_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_RATE_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVENESS_FIELD_NUMBER: _ClassVar[int]
    UTILIZATION_FIELD_NUMBER: _ClassVar[int]
    RECOGNITION_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    PREVENTION_FIELD_NUMBER: _ClassVar[int]
    FAILURE_PATTERNS_FIELD_NUMBER: _ClassVar[int]
    RECURRING_PATTERNS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_PATTERNS_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    CALIBRATION_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    PREVENTION_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    SPARED_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedScalarFieldContainer[str]
    decisions: int
    with_outcome: int
    success_rate: float
    effectiveness: Trend
    utilization: Ratio
    recognition: Ratio
    transfer: Ratio
    prevention: float
    failure_patterns: int
    recurring_patterns: int
    success_patterns: int
    checks: int
    calibration: Calibration
    success_interval: Interval
    prevention_interval: Interval
    spared: Spared
    def __init__(self, agents: _Optional[_Iterable[str]] = ..., decisions: _Optional[int] = ..., with_outcome: _Optional[int] = ..., success_rate: _Optional[float] = ..., effectiveness: _Optional[_Union[Trend, _Mapping]] = ..., utilization: _Optional[_Union[Ratio, _Mapping]] = ..., recognition: _Optional[_Union[Ratio, _Mapping]] = ..., transfer: _Optional[_Union[Ratio, _Mapping]] = ..., prevention: _Optional[float] = ..., failure_patterns: _Optional[int] = ..., recurring_patterns: _Optional[int] = ..., success_patterns: _Optional[int] = ..., checks: _Optional[int] = ..., calibration: _Optional[_Union[Calibration, _Mapping]] = ..., success_interval: _Optional[_Union[Interval, _Mapping]] = ..., prevention_interval: _Optional[_Union[Interval, _Mapping]] = ..., spared: _Optional[_Union[Spared, _Mapping]] = ...) -> None: ...

class Measure(_message.Message):
    __slots__ = ("some", "all", "share", "interval")
    SOME_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    some: int
    all: int
    share: float
    interval: Interval
    def __init__(self, some: _Optional[int] = ..., all: _Optional[int] = ..., share: _Optional[float] = ..., interval: _Optional[_Union[Interval, _Mapping]] = ...) -> None: ...

class Measures(_message.Message):
    __slots__ = ("retrieval_success", "hit_ratio", "informed", "success")
    RETRIEVAL_SUCCESS_FIELD_NUMBER: _ClassVar[int]
    HIT_RATIO_FIELD_NUMBER: _ClassVar[int]
    INFORMED_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    retrieval_success: Measure
    hit_ratio: Measure
    informed: Measure
    success: Measure
    def __init__(self, retrieval_success: _Optional[_Union[Measure, _Mapping]] = ..., hit_ratio: _Optional[_Union[Measure, _Mapping]] = ..., informed: _Optional[_Union[Measure, _Mapping]] = ..., success: _Optional[_Union[Measure, _Mapping]] = ...) -> None: ...

class EvaluationRow(_message.Message):
    __slots__ = ("retrieval_success", "hit_ratio", "informed", "success", "start", "end")
    RETRIEVAL_SUCCESS_FIELD_NUMBER: _ClassVar[int]
    HIT_RATIO_FIELD_NUMBER: _ClassVar[int]
    INFORMED_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    retrieval_success: Measure
    hit_ratio: Measure
    informed: Measure
    success: Measure
    start: _timestamp_pb2.Timestamp
    end: _timestamp_pb2.Timestamp
    def __init__(self, retrieval_success: _Optional[_Union[Measure, _Mapping]] = ..., hit_ratio: _Optional[_Union[Measure, _Mapping]] = ..., informed: _Optional[_Union[Measure, _Mapping]] = ..., success: _Optional[_Union[Measure, _Mapping]] = ..., start: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Drift(_message.Message):
    __slots__ = ("measure", "first", "last", "change", "p_value", "drifted", "interval", "since", "until")
    MEASURE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    P_VALUE_FIELD_NUMBER: _ClassVar[int]
    DRIFTED_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    measure: str
    first: Measure
    last: Measure
    change: float
    p_value: float
    drifted: bool
    interval: Interval
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    def __init__(self, measure: _Optional[str] = ..., first: _Optional[_Union[Measure, _Mapping]] = ..., last: _Optional[_Union[Measure, _Mapping]] = ..., change: _Optional[float] = ..., p_value: _Optional[float] = ..., drifted: bool = ..., interval: _Optional[_Union[Interval, _Mapping]] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class EvaluationReport(_message.Message):
    __slots__ = ("agents", "period", "total", "rows", "drift", "drifted")
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    DRIFT_FIELD_NUMBER: _ClassVar[int]
    DRIFTED_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedScalarFieldContainer[str]
    period: Period
    total: Measures
    rows: _containers.RepeatedCompositeFieldContainer[EvaluationRow]
    drift: _containers.RepeatedCompositeFieldContainer[Drift]
    drifted: bool
    def __init__(self, agents: _Optional[_Iterable[str]] = ..., period: _Optional[_Union[Period, str]] = ..., total: _Optional[_Union[Measures, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[EvaluationRow, _Mapping]]] = ..., drift: _Optional[_Iterable[_Union[Drift, _Mapping]]] = ..., drifted: bool = ...) -> None: ...

class Agent(_message.Message):
    __slots__ = ("name", "version", "at", "description", "directives", "config", "redacted")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DIRECTIVES_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    REDACTED_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    at: _timestamp_pb2.Timestamp
    description: str
    directives: _containers.RepeatedScalarFieldContainer[str]
    config: _struct_pb2.Struct
    redacted: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., description: _Optional[str] = ..., directives: _Optional[_Iterable[str]] = ..., config: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., redacted: _Optional[_Iterable[str]] = ...) -> None: ...

class AgentView(_message.Message):
    __slots__ = ("name", "definition")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    name: str
    definition: Agent
    def __init__(self, name: _Optional[str] = ..., definition: _Optional[_Union[Agent, _Mapping]] = ...) -> None: ...

class ActionProposal(_message.Message):
    __slots__ = ("index", "at", "thoughts", "tool", "arguments", "reasoning", "plan", "workspace", "retry_of", "redacted")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    THOUGHTS_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    RETRY_OF_FIELD_NUMBER: _ClassVar[int]
    REDACTED_FIELD_NUMBER: _ClassVar[int]
    index: int
    at: _timestamp_pb2.Timestamp
    thoughts: _struct_pb2.Value
    tool: str
    arguments: _struct_pb2.Struct
    reasoning: str
    plan: _containers.RepeatedScalarFieldContainer[str]
    workspace: str
    retry_of: int
    redacted: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, index: _Optional[int] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., thoughts: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., tool: _Optional[str] = ..., arguments: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., reasoning: _Optional[str] = ..., plan: _Optional[_Iterable[str]] = ..., workspace: _Optional[str] = ..., retry_of: _Optional[int] = ..., redacted: _Optional[_Iterable[str]] = ...) -> None: ...

class ActionError(_message.Message):
    __slots__ = ("message", "kind", "details")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    message: str
    kind: str
    details: _struct_pb2.Value
    def __init__(self, message: _Optional[str] = ..., kind: _Optional[str] = ..., details: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...

class ActionResult(_message.Message):
    __slots__ = ("at", "output", "error", "artifacts", "redacted")
    AT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    REDACTED_FIELD_NUMBER: _ClassVar[int]
    at: _timestamp_pb2.Timestamp
    output: _struct_pb2.Value
    error: ActionError
    artifacts: _containers.RepeatedScalarFieldContainer[str]
    redacted: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., output: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., error: _Optional[_Union[ActionError, _Mapping]] = ..., artifacts: _Optional[_Iterable[str]] = ..., redacted: _Optional[_Iterable[str]] = ...) -> None: ...

class AgentCycle(_message.Message):
    __slots__ = ("agent", "index", "status", "proposal", "result", "reason", "retried_by", "ended_at")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRIED_BY_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    index: int
    status: CycleStatus
    proposal: ActionProposal
    result: ActionResult
    reason: str
    retried_by: int
    ended_at: _timestamp_pb2.Timestamp
    def __init__(self, agent: _Optional[str] = ..., index: _Optional[int] = ..., status: _Optional[_Union[CycleStatus, str]] = ..., proposal: _Optional[_Union[ActionProposal, _Mapping]] = ..., result: _Optional[_Union[ActionResult, _Mapping]] = ..., reason: _Optional[str] = ..., retried_by: _Optional[int] = ..., ended_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class AgentState(_message.Message):
    __slots__ = ("agent", "next_index", "last_complete", "interrupted", "unfinished")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    NEXT_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTED_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_FIELD_NUMBER: _ClassVar[int]
    agent: str
    next_index: int
    last_complete: AgentCycle
    interrupted: ActionProposal
    unfinished: _containers.RepeatedCompositeFieldContainer[AgentCycle]
    def __init__(self, agent: _Optional[str] = ..., next_index: _Optional[int] = ..., last_complete: _Optional[_Union[AgentCycle, _Mapping]] = ..., interrupted: _Optional[_Union[ActionProposal, _Mapping]] = ..., unfinished: _Optional[_Iterable[_Union[AgentCycle, _Mapping]]] = ...) -> None: ...

class Workspace(_message.Message):
    __slots__ = ("name", "folder", "ignore", "secrets", "created_at")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    IGNORE_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    folder: str
    ignore: _containers.RepeatedScalarFieldContainer[str]
    secrets: SecretsPolicy
    created_at: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., folder: _Optional[str] = ..., ignore: _Optional[_Iterable[str]] = ..., secrets: _Optional[_Union[SecretsPolicy, str]] = ..., created_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Skipped(_message.Message):
    __slots__ = ("path", "reason")
    PATH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    path: str
    reason: str
    def __init__(self, path: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("id", "workspace", "tree", "parent", "label", "at", "files", "size", "skipped", "fresh", "read", "stored")
    ID_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    TREE_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    FRESH_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    id: str
    workspace: str
    tree: str
    parent: str
    label: str
    at: _timestamp_pb2.Timestamp
    files: int
    size: int
    skipped: _containers.RepeatedCompositeFieldContainer[Skipped]
    fresh: bool
    read: int
    stored: int
    def __init__(self, id: _Optional[str] = ..., workspace: _Optional[str] = ..., tree: _Optional[str] = ..., parent: _Optional[str] = ..., label: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., files: _Optional[int] = ..., size: _Optional[int] = ..., skipped: _Optional[_Iterable[_Union[Skipped, _Mapping]]] = ..., fresh: bool = ..., read: _Optional[int] = ..., stored: _Optional[int] = ...) -> None: ...

class WorkspaceFile(_message.Message):
    __slots__ = ("path", "kind", "mode", "size", "hash", "target")
    PATH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    path: str
    kind: FileKind
    mode: int
    size: int
    hash: str
    target: str
    def __init__(self, path: _Optional[str] = ..., kind: _Optional[_Union[FileKind, str]] = ..., mode: _Optional[int] = ..., size: _Optional[int] = ..., hash: _Optional[str] = ..., target: _Optional[str] = ...) -> None: ...

class FileChange(_message.Message):
    __slots__ = ("kind", "path", "before", "after")
    KIND_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    kind: ChangeKind
    path: str
    before: WorkspaceFile
    after: WorkspaceFile
    def __init__(self, kind: _Optional[_Union[ChangeKind, str]] = ..., path: _Optional[str] = ..., before: _Optional[_Union[WorkspaceFile, _Mapping]] = ..., after: _Optional[_Union[WorkspaceFile, _Mapping]] = ...) -> None: ...

class WorkspaceDiff(_message.Message):
    __slots__ = ("workspace", "before", "after", "changes", "skipped")
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    workspace: str
    before: str
    after: str
    changes: _containers.RepeatedCompositeFieldContainer[FileChange]
    skipped: _containers.RepeatedCompositeFieldContainer[Skipped]
    def __init__(self, workspace: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[FileChange, _Mapping]]] = ..., skipped: _Optional[_Iterable[_Union[Skipped, _Mapping]]] = ...) -> None: ...

class StageCheck(_message.Message):
    __slots__ = ("stage", "check", "name", "verify", "met", "stops", "reason")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FIELD_NUMBER: _ClassVar[int]
    MET_FIELD_NUMBER: _ClassVar[int]
    STOPS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    stage: str
    check: str
    name: str
    verify: str
    met: bool
    stops: bool
    reason: str
    def __init__(self, stage: _Optional[str] = ..., check: _Optional[str] = ..., name: _Optional[str] = ..., verify: _Optional[str] = ..., met: bool = ..., stops: bool = ..., reason: _Optional[str] = ...) -> None: ...

class StepResult(_message.Message):
    __slots__ = ("name", "stage", "status", "attempts", "output", "action", "reason", "error", "warning", "started_at", "ended_at", "seconds", "decisions", "pattern", "solutions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    SOLUTIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    stage: str
    status: StepStatus
    attempts: int
    output: _struct_pb2.Struct
    action: str
    reason: str
    error: str
    warning: str
    started_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    seconds: float
    decisions: _containers.RepeatedScalarFieldContainer[str]
    pattern: str
    solutions: _containers.RepeatedCompositeFieldContainer[Solution]
    def __init__(self, name: _Optional[str] = ..., stage: _Optional[str] = ..., status: _Optional[_Union[StepStatus, str]] = ..., attempts: _Optional[int] = ..., output: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., action: _Optional[str] = ..., reason: _Optional[str] = ..., error: _Optional[str] = ..., warning: _Optional[str] = ..., started_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., seconds: _Optional[float] = ..., decisions: _Optional[_Iterable[str]] = ..., pattern: _Optional[str] = ..., solutions: _Optional[_Iterable[_Union[Solution, _Mapping]]] = ...) -> None: ...

class ExecutionResult(_message.Message):
    __slots__ = ("run", "workflow", "status", "reason", "parameters", "steps", "checks", "started_at", "ended_at")
    RUN_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    run: str
    workflow: str
    status: RunStatus
    reason: str
    parameters: _struct_pb2.Struct
    steps: _containers.RepeatedCompositeFieldContainer[StepResult]
    checks: _containers.RepeatedCompositeFieldContainer[StageCheck]
    started_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    def __init__(self, run: _Optional[str] = ..., workflow: _Optional[str] = ..., status: _Optional[_Union[RunStatus, str]] = ..., reason: _Optional[str] = ..., parameters: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., steps: _Optional[_Iterable[_Union[StepResult, _Mapping]]] = ..., checks: _Optional[_Iterable[_Union[StageCheck, _Mapping]]] = ..., started_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RunSummary(_message.Message):
    __slots__ = ("run", "workflow", "status", "reason", "done", "steps", "started_at", "ended_at")
    RUN_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    run: str
    workflow: str
    status: RunStatus
    reason: str
    done: int
    steps: int
    started_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    def __init__(self, run: _Optional[str] = ..., workflow: _Optional[str] = ..., status: _Optional[_Union[RunStatus, str]] = ..., reason: _Optional[str] = ..., done: _Optional[int] = ..., steps: _Optional[int] = ..., started_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Subject(_message.Message):
    __slots__ = ("memories", "patterns", "domains", "tags", "everything")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    EVERYTHING_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedScalarFieldContainer[str]
    patterns: _containers.RepeatedScalarFieldContainer[str]
    domains: _containers.RepeatedScalarFieldContainer[str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    everything: bool
    def __init__(self, memories: _Optional[_Iterable[str]] = ..., patterns: _Optional[_Iterable[str]] = ..., domains: _Optional[_Iterable[str]] = ..., tags: _Optional[_Iterable[str]] = ..., everything: bool = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("id", "owner", "receiver", "audience", "subject", "rights", "purpose", "state", "made_by", "made_at", "decided_at", "expires_at", "via", "version")
    ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    AUDIENCE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MADE_BY_FIELD_NUMBER: _ClassVar[int]
    MADE_AT_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    VIA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    owner: str
    receiver: str
    audience: Audience
    subject: Subject
    rights: _containers.RepeatedScalarFieldContainer[GrantRight]
    purpose: str
    state: GrantState
    made_by: str
    made_at: _timestamp_pb2.Timestamp
    decided_at: _timestamp_pb2.Timestamp
    expires_at: _timestamp_pb2.Timestamp
    via: str
    version: int
    def __init__(self, id: _Optional[str] = ..., owner: _Optional[str] = ..., receiver: _Optional[str] = ..., audience: _Optional[_Union[Audience, str]] = ..., subject: _Optional[_Union[Subject, _Mapping]] = ..., rights: _Optional[_Iterable[_Union[GrantRight, str]]] = ..., purpose: _Optional[str] = ..., state: _Optional[_Union[GrantState, str]] = ..., made_by: _Optional[str] = ..., made_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., decided_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., expires_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., via: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class GrantUse(_message.Message):
    __slots__ = ("grant", "agent", "action", "at", "count", "memories")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    grant: str
    agent: str
    action: str
    at: _timestamp_pb2.Timestamp
    count: int
    memories: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, grant: _Optional[str] = ..., agent: _Optional[str] = ..., action: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., count: _Optional[int] = ..., memories: _Optional[_Iterable[str]] = ...) -> None: ...

class Revocation(_message.Message):
    __slots__ = ("grant", "quarantined", "copies")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    grant: Grant
    quarantined: _containers.RepeatedScalarFieldContainer[str]
    copies: int
    def __init__(self, grant: _Optional[_Union[Grant, _Mapping]] = ..., quarantined: _Optional[_Iterable[str]] = ..., copies: _Optional[int] = ...) -> None: ...

class KnowledgeSource(_message.Message):
    __slots__ = ("name", "kind", "id", "trust", "helped", "hindered", "memories")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    HELPED_FIELD_NUMBER: _ClassVar[int]
    HINDERED_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: SourceKind
    id: str
    trust: float
    helped: float
    hindered: float
    memories: int
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[SourceKind, str]] = ..., id: _Optional[str] = ..., trust: _Optional[float] = ..., helped: _Optional[float] = ..., hindered: _Optional[float] = ..., memories: _Optional[int] = ...) -> None: ...

class FileVerification(_message.Message):
    __slots__ = ("status", "key", "signer", "reason")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    status: FileVerificationStatus
    key: str
    signer: str
    reason: str
    def __init__(self, status: _Optional[_Union[FileVerificationStatus, str]] = ..., key: _Optional[str] = ..., signer: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class FileFinding(_message.Message):
    __slots__ = ("code", "record", "reason")
    CODE_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    code: str
    record: str
    reason: str
    def __init__(self, code: _Optional[str] = ..., record: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ExportReport(_message.Message):
    __slots__ = ("file", "memories", "lent", "events", "patterns", "signed_by", "left_out")
    class LeftOutEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    FILE_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    LENT_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    SIGNED_BY_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    file: str
    memories: int
    lent: int
    events: int
    patterns: int
    signed_by: str
    left_out: _containers.ScalarMap[str, int]
    def __init__(self, file: _Optional[str] = ..., memories: _Optional[int] = ..., lent: _Optional[int] = ..., events: _Optional[int] = ..., patterns: _Optional[int] = ..., signed_by: _Optional[str] = ..., left_out: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ImportReport(_message.Message):
    __slots__ = ("source", "format", "dry_run", "verification", "stored", "merged", "known", "own", "quarantined", "rejected", "outcomes", "reasons", "findings")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    VERIFICATION_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    MERGED_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    source: str
    format: str
    dry_run: bool
    verification: FileVerification
    stored: int
    merged: int
    known: int
    own: int
    quarantined: int
    rejected: int
    outcomes: int
    reasons: _containers.RepeatedScalarFieldContainer[str]
    findings: _containers.RepeatedCompositeFieldContainer[FileFinding]
    def __init__(self, source: _Optional[str] = ..., format: _Optional[str] = ..., dry_run: bool = ..., verification: _Optional[_Union[FileVerification, _Mapping]] = ..., stored: _Optional[int] = ..., merged: _Optional[int] = ..., known: _Optional[int] = ..., own: _Optional[int] = ..., quarantined: _Optional[int] = ..., rejected: _Optional[int] = ..., outcomes: _Optional[int] = ..., reasons: _Optional[_Iterable[str]] = ..., findings: _Optional[_Iterable[_Union[FileFinding, _Mapping]]] = ...) -> None: ...

class GroupView(_message.Message):
    __slots__ = ("name", "members")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., members: _Optional[_Iterable[str]] = ...) -> None: ...

class Quarantined(_message.Message):
    __slots__ = ("id", "memory", "reason", "at")
    ID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    memory: Memory
    reason: str
    at: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., memory: _Optional[_Union[Memory, _Mapping]] = ..., reason: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class AuditEntry(_message.Message):
    __slots__ = ("seq", "at", "actor", "principal", "action", "agent", "target", "grant", "count", "detail", "prev", "hash")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    PREV_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at: _timestamp_pb2.Timestamp
    actor: str
    principal: str
    action: str
    agent: str
    target: str
    grant: str
    count: int
    detail: _struct_pb2.Struct
    prev: str
    hash: str
    def __init__(self, seq: _Optional[int] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., actor: _Optional[str] = ..., principal: _Optional[str] = ..., action: _Optional[str] = ..., agent: _Optional[str] = ..., target: _Optional[str] = ..., grant: _Optional[str] = ..., count: _Optional[int] = ..., detail: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., prev: _Optional[str] = ..., hash: _Optional[str] = ...) -> None: ...

class AuditProblem(_message.Message):
    __slots__ = ("seq", "what")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    seq: int
    what: str
    def __init__(self, seq: _Optional[int] = ..., what: _Optional[str] = ...) -> None: ...

class AuditVerification(_message.Message):
    __slots__ = ("ok", "entries", "first", "last", "fixed", "problems")
    OK_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FIXED_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    ok: bool
    entries: int
    first: int
    last: int
    fixed: int
    problems: _containers.RepeatedCompositeFieldContainer[AuditProblem]
    def __init__(self, ok: bool = ..., entries: _Optional[int] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., fixed: _Optional[int] = ..., problems: _Optional[_Iterable[_Union[AuditProblem, _Mapping]]] = ...) -> None: ...

class LiveEvent(_message.Message):
    __slots__ = ("seq", "agent", "event", "subject", "at")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    seq: int
    agent: str
    event: str
    subject: str
    at: _timestamp_pb2.Timestamp
    def __init__(self, seq: _Optional[int] = ..., agent: _Optional[str] = ..., event: _Optional[str] = ..., subject: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
