from engram.server.grpc.v1 import model_pb2 as _model_pb2
from google.protobuf import empty_pb2 as _empty_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OutcomeWord(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_WORD_UNSPECIFIED: _ClassVar[OutcomeWord]
    OUTCOME_WORD_SUCCESS: _ClassVar[OutcomeWord]
    OUTCOME_WORD_PARTIAL: _ClassVar[OutcomeWord]
    OUTCOME_WORD_FAILURE: _ClassVar[OutcomeWord]

class Grouping(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GROUPING_UNSPECIFIED: _ClassVar[Grouping]
    GROUPING_SESSION: _ClassVar[Grouping]

class Resolution(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESOLUTION_UNSPECIFIED: _ClassVar[Resolution]
    RESOLUTION_ABANDON: _ClassVar[Resolution]
    RESOLUTION_RETRY: _ClassVar[Resolution]

class RetentionAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RETENTION_ACTION_UNSPECIFIED: _ClassVar[RetentionAction]
    RETENTION_ACTION_FORGET: _ClassVar[RetentionAction]
    RETENTION_ACTION_ARCHIVE: _ClassVar[RetentionAction]

class KnowledgeForm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KNOWLEDGE_FORM_UNSPECIFIED: _ClassVar[KnowledgeForm]
    KNOWLEDGE_FORM_JSON: _ClassVar[KnowledgeForm]
    KNOWLEDGE_FORM_JSONL: _ClassVar[KnowledgeForm]
OUTCOME_WORD_UNSPECIFIED: OutcomeWord
OUTCOME_WORD_SUCCESS: OutcomeWord
OUTCOME_WORD_PARTIAL: OutcomeWord
OUTCOME_WORD_FAILURE: OutcomeWord
GROUPING_UNSPECIFIED: Grouping
GROUPING_SESSION: Grouping
RESOLUTION_UNSPECIFIED: Resolution
RESOLUTION_ABANDON: Resolution
RESOLUTION_RETRY: Resolution
RETENTION_ACTION_UNSPECIFIED: RetentionAction
RETENTION_ACTION_FORGET: RetentionAction
RETENTION_ACTION_ARCHIVE: RetentionAction
KNOWLEDGE_FORM_UNSPECIFIED: KnowledgeForm
KNOWLEDGE_FORM_JSON: KnowledgeForm
KNOWLEDGE_FORM_JSONL: KnowledgeForm

class Listing(_message.Message):
    __slots__ = ("limit", "cursor")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    limit: int
    cursor: str
    def __init__(self, limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class Id(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class Named(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("word", "quality")
    WORD_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    word: OutcomeWord
    quality: float
    def __init__(self, word: _Optional[_Union[OutcomeWord, str]] = ..., quality: _Optional[float] = ...) -> None: ...

class Helped(_message.Message):
    __slots__ = ("plainly", "share")
    PLAINLY_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    plainly: bool
    share: float
    def __init__(self, plainly: bool = ..., share: _Optional[float] = ...) -> None: ...

class NewMemory(_message.Message):
    __slots__ = ("text", "kind", "tags", "at", "session", "role", "speaker", "importance", "confidence", "key", "metadata", "context", "content", "sources", "valid_from", "valid_until", "origin", "trust")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    text: str
    kind: _model_pb2.MemoryType
    tags: _containers.RepeatedScalarFieldContainer[str]
    at: _timestamp_pb2.Timestamp
    session: str
    role: str
    speaker: str
    importance: float
    confidence: float
    key: str
    metadata: _struct_pb2.Struct
    context: str
    content: _model_pb2.Content
    sources: _containers.RepeatedScalarFieldContainer[str]
    valid_from: _timestamp_pb2.Timestamp
    valid_until: _timestamp_pb2.Timestamp
    origin: _model_pb2.Origin
    trust: float
    def __init__(self, text: _Optional[str] = ..., kind: _Optional[_Union[_model_pb2.MemoryType, str]] = ..., tags: _Optional[_Iterable[str]] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., session: _Optional[str] = ..., role: _Optional[str] = ..., speaker: _Optional[str] = ..., importance: _Optional[float] = ..., confidence: _Optional[float] = ..., key: _Optional[str] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., context: _Optional[str] = ..., content: _Optional[_Union[_model_pb2.Content, _Mapping]] = ..., sources: _Optional[_Iterable[str]] = ..., valid_from: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., valid_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., origin: _Optional[_Union[_model_pb2.Origin, str]] = ..., trust: _Optional[float] = ...) -> None: ...

class NewMemories(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[NewMemory]
    def __init__(self, items: _Optional[_Iterable[_Union[NewMemory, _Mapping]]] = ...) -> None: ...

class MemoryListing(_message.Message):
    __slots__ = ("limit", "cursor", "kinds", "tags", "since", "until", "as_of", "session")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    limit: int
    cursor: str
    kinds: _containers.RepeatedScalarFieldContainer[_model_pb2.MemoryType]
    tags: _containers.RepeatedScalarFieldContainer[str]
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    as_of: _timestamp_pb2.Timestamp
    session: str
    def __init__(self, limit: _Optional[int] = ..., cursor: _Optional[str] = ..., kinds: _Optional[_Iterable[_Union[_model_pb2.MemoryType, str]]] = ..., tags: _Optional[_Iterable[str]] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., session: _Optional[str] = ...) -> None: ...

class Annotation(_message.Message):
    __slots__ = ("tags", "importance", "confidence", "valid_until")
    TAGS_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    tags: _model_pb2.Texts
    importance: float
    confidence: float
    valid_until: _timestamp_pb2.Timestamp
    def __init__(self, tags: _Optional[_Union[_model_pb2.Texts, _Mapping]] = ..., importance: _Optional[float] = ..., confidence: _Optional[float] = ..., valid_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class AnnotationOf(_message.Message):
    __slots__ = ("id", "changes", "expected_version")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    changes: Annotation
    expected_version: int
    def __init__(self, id: _Optional[str] = ..., changes: _Optional[_Union[Annotation, _Mapping]] = ..., expected_version: _Optional[int] = ...) -> None: ...

class Forgetting(_message.Message):
    __slots__ = ("id", "expected_version")
    ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    expected_version: int
    def __init__(self, id: _Optional[str] = ..., expected_version: _Optional[int] = ...) -> None: ...

class RecallQuery(_message.Message):
    __slots__ = ("query", "k", "kinds", "tags", "since", "until", "as_of", "now", "session", "min_score", "group_by", "budget_tokens", "expand")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    GROUP_BY_FIELD_NUMBER: _ClassVar[int]
    BUDGET_TOKENS_FIELD_NUMBER: _ClassVar[int]
    EXPAND_FIELD_NUMBER: _ClassVar[int]
    query: str
    k: int
    kinds: _containers.RepeatedScalarFieldContainer[_model_pb2.MemoryType]
    tags: _containers.RepeatedScalarFieldContainer[str]
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    as_of: _timestamp_pb2.Timestamp
    now: _timestamp_pb2.Timestamp
    session: str
    min_score: float
    group_by: Grouping
    budget_tokens: int
    expand: bool
    def __init__(self, query: _Optional[str] = ..., k: _Optional[int] = ..., kinds: _Optional[_Iterable[_Union[_model_pb2.MemoryType, str]]] = ..., tags: _Optional[_Iterable[str]] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., now: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., session: _Optional[str] = ..., min_score: _Optional[float] = ..., group_by: _Optional[_Union[Grouping, str]] = ..., budget_tokens: _Optional[int] = ..., expand: bool = ...) -> None: ...

class ContextQuery(_message.Message):
    __slots__ = ("query", "k", "kinds", "tags", "since", "until", "as_of", "now", "session", "min_score", "group_by", "budget_tokens", "expand")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    GROUP_BY_FIELD_NUMBER: _ClassVar[int]
    BUDGET_TOKENS_FIELD_NUMBER: _ClassVar[int]
    EXPAND_FIELD_NUMBER: _ClassVar[int]
    query: str
    k: int
    kinds: _containers.RepeatedScalarFieldContainer[_model_pb2.MemoryType]
    tags: _containers.RepeatedScalarFieldContainer[str]
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    as_of: _timestamp_pb2.Timestamp
    now: _timestamp_pb2.Timestamp
    session: str
    min_score: float
    group_by: Grouping
    budget_tokens: int
    expand: bool
    def __init__(self, query: _Optional[str] = ..., k: _Optional[int] = ..., kinds: _Optional[_Iterable[_Union[_model_pb2.MemoryType, str]]] = ..., tags: _Optional[_Iterable[str]] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., now: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., session: _Optional[str] = ..., min_score: _Optional[float] = ..., group_by: _Optional[_Union[Grouping, str]] = ..., budget_tokens: _Optional[int] = ..., expand: bool = ...) -> None: ...

class NewDecision(_message.Message):
    __slots__ = ("environment", "tool", "task_type", "tags", "context", "action", "outcome", "alternatives", "error", "duration", "cost", "informed_by", "from_others", "at", "session", "importance", "key", "metadata")
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ALTERNATIVES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    INFORMED_BY_FIELD_NUMBER: _ClassVar[int]
    FROM_OTHERS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    environment: str
    tool: str
    task_type: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    context: str
    action: str
    outcome: Outcome
    alternatives: _containers.RepeatedScalarFieldContainer[str]
    error: str
    duration: float
    cost: float
    informed_by: _containers.RepeatedScalarFieldContainer[str]
    from_others: bool
    at: _timestamp_pb2.Timestamp
    session: str
    importance: float
    key: str
    metadata: _struct_pb2.Struct
    def __init__(self, environment: _Optional[str] = ..., tool: _Optional[str] = ..., task_type: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., context: _Optional[str] = ..., action: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ..., alternatives: _Optional[_Iterable[str]] = ..., error: _Optional[str] = ..., duration: _Optional[float] = ..., cost: _Optional[float] = ..., informed_by: _Optional[_Iterable[str]] = ..., from_others: bool = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., session: _Optional[str] = ..., importance: _Optional[float] = ..., key: _Optional[str] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class DecisionListing(_message.Message):
    __slots__ = ("limit", "cursor", "context")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    cursor: str
    context: str
    def __init__(self, limit: _Optional[int] = ..., cursor: _Optional[str] = ..., context: _Optional[str] = ...) -> None: ...

class OutcomeListing(_message.Message):
    __slots__ = ("limit", "cursor", "id")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    limit: int
    cursor: str
    id: str
    def __init__(self, limit: _Optional[int] = ..., cursor: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class NewOutcome(_message.Message):
    __slots__ = ("id", "outcome", "used", "action", "error", "duration", "cost", "correct")
    ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    CORRECT_FIELD_NUMBER: _ClassVar[int]
    id: str
    outcome: Outcome
    used: _model_pb2.Texts
    action: str
    error: str
    duration: float
    cost: float
    correct: bool
    def __init__(self, id: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ..., used: _Optional[_Union[_model_pb2.Texts, _Mapping]] = ..., action: _Optional[str] = ..., error: _Optional[str] = ..., duration: _Optional[float] = ..., cost: _Optional[float] = ..., correct: bool = ...) -> None: ...

class SuggestionQuery(_message.Message):
    __slots__ = ("environment", "tool", "task_type", "tags", "context", "actions", "explore")
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    EXPLORE_FIELD_NUMBER: _ClassVar[int]
    environment: str
    tool: str
    task_type: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    context: str
    actions: _model_pb2.Texts
    explore: bool
    def __init__(self, environment: _Optional[str] = ..., tool: _Optional[str] = ..., task_type: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., context: _Optional[str] = ..., actions: _Optional[_Union[_model_pb2.Texts, _Mapping]] = ..., explore: bool = ...) -> None: ...

class PredictionQuery(_message.Message):
    __slots__ = ("environment", "tool", "task_type", "tags", "context", "action")
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    environment: str
    tool: str
    task_type: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    context: str
    action: str
    def __init__(self, environment: _Optional[str] = ..., tool: _Optional[str] = ..., task_type: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., context: _Optional[str] = ..., action: _Optional[str] = ...) -> None: ...

class CheckQuery(_message.Message):
    __slots__ = ("environment", "tool", "task_type", "tags", "action", "context")
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    environment: str
    tool: str
    task_type: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    action: str
    context: str
    def __init__(self, environment: _Optional[str] = ..., tool: _Optional[str] = ..., task_type: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., action: _Optional[str] = ..., context: _Optional[str] = ...) -> None: ...

class NewFailure(_message.Message):
    __slots__ = ("error", "solution", "helped", "action", "context", "environment", "tool", "task_type", "root_cause", "prevention", "tags", "at", "session", "key")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SOLUTION_FIELD_NUMBER: _ClassVar[int]
    HELPED_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    TASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    ROOT_CAUSE_FIELD_NUMBER: _ClassVar[int]
    PREVENTION_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    error: str
    solution: str
    helped: Helped
    action: str
    context: str
    environment: str
    tool: str
    task_type: str
    root_cause: str
    prevention: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    at: _timestamp_pb2.Timestamp
    session: str
    key: str
    def __init__(self, error: _Optional[str] = ..., solution: _Optional[str] = ..., helped: _Optional[_Union[Helped, _Mapping]] = ..., action: _Optional[str] = ..., context: _Optional[str] = ..., environment: _Optional[str] = ..., tool: _Optional[str] = ..., task_type: _Optional[str] = ..., root_cause: _Optional[str] = ..., prevention: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., session: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class SolutionOf(_message.Message):
    __slots__ = ("solution", "helped", "name")
    SOLUTION_FIELD_NUMBER: _ClassVar[int]
    HELPED_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    solution: str
    helped: Helped
    name: str
    def __init__(self, solution: _Optional[str] = ..., helped: _Optional[_Union[Helped, _Mapping]] = ..., name: _Optional[str] = ...) -> None: ...

class NewChecks(_message.Message):
    __slots__ = ("pattern", "stage")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    stage: str
    def __init__(self, pattern: _Optional[str] = ..., stage: _Optional[str] = ...) -> None: ...

class EvaluationQuery(_message.Message):
    __slots__ = ("since", "until", "period")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    period: _model_pb2.Period
    def __init__(self, since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., period: _Optional[_Union[_model_pb2.Period, str]] = ...) -> None: ...

class NewCycle(_message.Message):
    __slots__ = ("thoughts", "tool", "arguments", "reasoning", "plan", "workspace", "again")
    THOUGHTS_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    thoughts: _struct_pb2.Value
    tool: str
    arguments: _struct_pb2.Struct
    reasoning: str
    plan: _containers.RepeatedScalarFieldContainer[str]
    workspace: str
    again: bool
    def __init__(self, thoughts: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., tool: _Optional[str] = ..., arguments: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., reasoning: _Optional[str] = ..., plan: _Optional[_Iterable[str]] = ..., workspace: _Optional[str] = ..., again: bool = ...) -> None: ...

class CycleError(_message.Message):
    __slots__ = ("message", "kind", "details")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    message: str
    kind: str
    details: _struct_pb2.Value
    def __init__(self, message: _Optional[str] = ..., kind: _Optional[str] = ..., details: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...

class CycleErrorTold(_message.Message):
    __slots__ = ("text", "error")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    text: str
    error: CycleError
    def __init__(self, text: _Optional[str] = ..., error: _Optional[_Union[CycleError, _Mapping]] = ...) -> None: ...

class CycleEnd(_message.Message):
    __slots__ = ("output", "error", "artifacts", "learn")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    LEARN_FIELD_NUMBER: _ClassVar[int]
    output: _struct_pb2.Value
    error: CycleErrorTold
    artifacts: _containers.RepeatedScalarFieldContainer[str]
    learn: bool
    def __init__(self, output: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., error: _Optional[_Union[CycleErrorTold, _Mapping]] = ..., artifacts: _Optional[_Iterable[str]] = ..., learn: bool = ...) -> None: ...

class CycleIndex(_message.Message):
    __slots__ = ("index",)
    INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    def __init__(self, index: _Optional[int] = ...) -> None: ...

class ResultOf(_message.Message):
    __slots__ = ("index", "end")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    index: int
    end: CycleEnd
    def __init__(self, index: _Optional[int] = ..., end: _Optional[_Union[CycleEnd, _Mapping]] = ...) -> None: ...

class CycleDecision(_message.Message):
    __slots__ = ("how", "reason")
    HOW_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    how: Resolution
    reason: str
    def __init__(self, how: _Optional[_Union[Resolution, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class ResolutionOf(_message.Message):
    __slots__ = ("index", "decision")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    index: int
    decision: CycleDecision
    def __init__(self, index: _Optional[int] = ..., decision: _Optional[_Union[CycleDecision, _Mapping]] = ...) -> None: ...

class SnapshotListing(_message.Message):
    __slots__ = ("limit", "cursor", "workspace")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    limit: int
    cursor: str
    workspace: str
    def __init__(self, limit: _Optional[int] = ..., cursor: _Optional[str] = ..., workspace: _Optional[str] = ...) -> None: ...

class DiffQuery(_message.Message):
    __slots__ = ("workspace", "before", "after")
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    workspace: str
    before: str
    after: str
    def __init__(self, workspace: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...

class RunListing(_message.Message):
    __slots__ = ("limit", "cursor", "workflow")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    limit: int
    cursor: str
    workflow: str
    def __init__(self, limit: _Optional[int] = ..., cursor: _Optional[str] = ..., workflow: _Optional[str] = ...) -> None: ...

class RunId(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: str
    def __init__(self, run: _Optional[str] = ...) -> None: ...

class GrantRequest(_message.Message):
    __slots__ = ("memories", "patterns", "domains", "tags", "everything", "purpose", "rights", "expires", "owner")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    EVERYTHING_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedScalarFieldContainer[str]
    patterns: _containers.RepeatedScalarFieldContainer[str]
    domains: _containers.RepeatedScalarFieldContainer[str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    everything: bool
    purpose: str
    rights: _containers.RepeatedScalarFieldContainer[_model_pb2.GrantRight]
    expires: _timestamp_pb2.Timestamp
    owner: str
    def __init__(self, memories: _Optional[_Iterable[str]] = ..., patterns: _Optional[_Iterable[str]] = ..., domains: _Optional[_Iterable[str]] = ..., tags: _Optional[_Iterable[str]] = ..., everything: bool = ..., purpose: _Optional[str] = ..., rights: _Optional[_Iterable[_Union[_model_pb2.GrantRight, str]]] = ..., expires: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class GrantOffer(_message.Message):
    __slots__ = ("memories", "patterns", "domains", "tags", "everything", "purpose", "rights", "expires", "to")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    EVERYTHING_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedScalarFieldContainer[str]
    patterns: _containers.RepeatedScalarFieldContainer[str]
    domains: _containers.RepeatedScalarFieldContainer[str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    everything: bool
    purpose: str
    rights: _containers.RepeatedScalarFieldContainer[_model_pb2.GrantRight]
    expires: _timestamp_pb2.Timestamp
    to: str
    def __init__(self, memories: _Optional[_Iterable[str]] = ..., patterns: _Optional[_Iterable[str]] = ..., domains: _Optional[_Iterable[str]] = ..., tags: _Optional[_Iterable[str]] = ..., everything: bool = ..., purpose: _Optional[str] = ..., rights: _Optional[_Iterable[_Union[_model_pb2.GrantRight, str]]] = ..., expires: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., to: _Optional[str] = ...) -> None: ...

class GrantShare(_message.Message):
    __slots__ = ("memories", "patterns", "domains", "tags", "everything", "purpose", "rights", "expires", "to", "via")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    EVERYTHING_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    VIA_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedScalarFieldContainer[str]
    patterns: _containers.RepeatedScalarFieldContainer[str]
    domains: _containers.RepeatedScalarFieldContainer[str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    everything: bool
    purpose: str
    rights: _containers.RepeatedScalarFieldContainer[_model_pb2.GrantRight]
    expires: _timestamp_pb2.Timestamp
    to: str
    via: str
    def __init__(self, memories: _Optional[_Iterable[str]] = ..., patterns: _Optional[_Iterable[str]] = ..., domains: _Optional[_Iterable[str]] = ..., tags: _Optional[_Iterable[str]] = ..., everything: bool = ..., purpose: _Optional[str] = ..., rights: _Optional[_Iterable[_Union[_model_pb2.GrantRight, str]]] = ..., expires: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., to: _Optional[str] = ..., via: _Optional[str] = ...) -> None: ...

class GrantApproval(_message.Message):
    __slots__ = ("rights", "expires", "id")
    RIGHTS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    rights: _containers.RepeatedScalarFieldContainer[_model_pb2.GrantRight]
    expires: _timestamp_pb2.Timestamp
    id: str
    def __init__(self, rights: _Optional[_Iterable[_Union[_model_pb2.GrantRight, str]]] = ..., expires: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., id: _Optional[str] = ...) -> None: ...

class GroupChangeOf(_message.Message):
    __slots__ = ("add", "remove", "name")
    ADD_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    add: _containers.RepeatedScalarFieldContainer[str]
    remove: _containers.RepeatedScalarFieldContainer[str]
    name: str
    def __init__(self, add: _Optional[_Iterable[str]] = ..., remove: _Optional[_Iterable[str]] = ..., name: _Optional[str] = ...) -> None: ...

class GrantListing(_message.Message):
    __slots__ = ("limit", "cursor", "state")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    limit: int
    cursor: str
    state: _model_pb2.GrantState
    def __init__(self, limit: _Optional[int] = ..., cursor: _Optional[str] = ..., state: _Optional[_Union[_model_pb2.GrantState, str]] = ...) -> None: ...

class UseListing(_message.Message):
    __slots__ = ("limit", "cursor", "id")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    limit: int
    cursor: str
    id: str
    def __init__(self, limit: _Optional[int] = ..., cursor: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class ExportQuery(_message.Message):
    __slots__ = ("domains", "tags", "form")
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    domains: _containers.RepeatedScalarFieldContainer[str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    form: KnowledgeForm
    def __init__(self, domains: _Optional[_Iterable[str]] = ..., tags: _Optional[_Iterable[str]] = ..., form: _Optional[_Union[KnowledgeForm, str]] = ...) -> None: ...

class ImportOptions(_message.Message):
    __slots__ = ("format", "dry_run", "large")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    LARGE_FIELD_NUMBER: _ClassVar[int]
    format: str
    dry_run: bool
    large: bool
    def __init__(self, format: _Optional[str] = ..., dry_run: bool = ..., large: bool = ...) -> None: ...

class Merge(_message.Message):
    __slots__ = ("from_agent", "domains", "tags", "dry_run")
    FROM_AGENT_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    from_agent: str
    domains: _containers.RepeatedScalarFieldContainer[str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    dry_run: bool
    def __init__(self, from_agent: _Optional[str] = ..., domains: _Optional[_Iterable[str]] = ..., tags: _Optional[_Iterable[str]] = ..., dry_run: bool = ...) -> None: ...

class AuditListing(_message.Message):
    __slots__ = ("after", "limit", "newest", "grant", "since")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    after: int
    limit: int
    newest: bool
    grant: str
    since: _timestamp_pb2.Timestamp
    def __init__(self, after: _Optional[int] = ..., limit: _Optional[int] = ..., newest: bool = ..., grant: _Optional[str] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("name", "action", "agent", "kinds", "tags", "older_than_days", "weaker_than", "outcome")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    OLDER_THAN_DAYS_FIELD_NUMBER: _ClassVar[int]
    WEAKER_THAN_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    name: str
    action: RetentionAction
    agent: str
    kinds: _containers.RepeatedScalarFieldContainer[_model_pb2.MemoryType]
    tags: _containers.RepeatedScalarFieldContainer[str]
    older_than_days: float
    weaker_than: float
    outcome: OutcomeWord
    def __init__(self, name: _Optional[str] = ..., action: _Optional[_Union[RetentionAction, str]] = ..., agent: _Optional[str] = ..., kinds: _Optional[_Iterable[_Union[_model_pb2.MemoryType, str]]] = ..., tags: _Optional[_Iterable[str]] = ..., older_than_days: _Optional[float] = ..., weaker_than: _Optional[float] = ..., outcome: _Optional[_Union[OutcomeWord, str]] = ...) -> None: ...

class NewHold(_message.Message):
    __slots__ = ("reason", "agent", "memories", "tags", "sessions")
    REASON_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    agent: str
    memories: _containers.RepeatedScalarFieldContainer[str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    sessions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, reason: _Optional[str] = ..., agent: _Optional[str] = ..., memories: _Optional[_Iterable[str]] = ..., tags: _Optional[_Iterable[str]] = ..., sessions: _Optional[_Iterable[str]] = ...) -> None: ...

class RetentionRun(_message.Message):
    __slots__ = ("agents", "dry_run")
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    agents: _model_pb2.Texts
    dry_run: bool
    def __init__(self, agents: _Optional[_Union[_model_pb2.Texts, _Mapping]] = ..., dry_run: bool = ...) -> None: ...

class LegalHold(_message.Message):
    __slots__ = ("id", "reason", "at", "agent", "memories", "tags", "sessions", "released_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    RELEASED_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    at: _timestamp_pb2.Timestamp
    agent: str
    memories: _containers.RepeatedScalarFieldContainer[str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    sessions: _containers.RepeatedScalarFieldContainer[str]
    released_at: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., agent: _Optional[str] = ..., memories: _Optional[_Iterable[str]] = ..., tags: _Optional[_Iterable[str]] = ..., sessions: _Optional[_Iterable[str]] = ..., released_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Retained(_message.Message):
    __slots__ = ("policy", "agent", "action", "memories", "removed")
    class RemovedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    POLICY_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    policy: str
    agent: str
    action: RetentionAction
    memories: int
    removed: _containers.ScalarMap[str, int]
    def __init__(self, policy: _Optional[str] = ..., agent: _Optional[str] = ..., action: _Optional[_Union[RetentionAction, str]] = ..., memories: _Optional[int] = ..., removed: _Optional[_Mapping[str, int]] = ...) -> None: ...

class RetentionReport(_message.Message):
    __slots__ = ("dry_run", "gone", "kept", "archive")
    class KeptEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    gone: _containers.RepeatedCompositeFieldContainer[Retained]
    kept: _containers.ScalarMap[str, int]
    archive: str
    def __init__(self, dry_run: bool = ..., gone: _Optional[_Iterable[_Union[Retained, _Mapping]]] = ..., kept: _Optional[_Mapping[str, int]] = ..., archive: _Optional[str] = ...) -> None: ...

class EventQuery(_message.Message):
    __slots__ = ("after", "seconds")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    after: int
    seconds: float
    def __init__(self, after: _Optional[int] = ..., seconds: _Optional[float] = ...) -> None: ...

class MemoryPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.Memory]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.Memory, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class PolicyPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Policy]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[Policy, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class HoldPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[LegalHold]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[LegalHold, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class OutcomePage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.RecordedOutcome]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.RecordedOutcome, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class FailurePage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.FailurePattern]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.FailurePattern, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class CheckPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.PreventionCheck]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.PreventionCheck, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class SuccessPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.SuccessPattern]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.SuccessPattern, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class TemplatePage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.DecisionTemplate]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.DecisionTemplate, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class AgentPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.AgentView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.AgentView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class CyclePage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.AgentCycle]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.AgentCycle, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class WorkspacePage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.Workspace]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.Workspace, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class SnapshotPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.Snapshot]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.Snapshot, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class RunPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.RunSummary]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.RunSummary, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class GrantPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.Grant]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.Grant, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class UsePage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.GrantUse]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.GrantUse, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class SourcePage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.KnowledgeSource]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.KnowledgeSource, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class GroupPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.GroupView]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.GroupView, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class QuarantinePage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.Quarantined]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.Quarantined, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class ExportPart(_message.Message):
    __slots__ = ("data", "report")
    DATA_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    report: _model_pb2.ExportReport
    def __init__(self, data: _Optional[bytes] = ..., report: _Optional[_Union[_model_pb2.ExportReport, _Mapping]] = ...) -> None: ...

class ImportPart(_message.Message):
    __slots__ = ("options", "data")
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    options: ImportOptions
    data: bytes
    def __init__(self, options: _Optional[_Union[ImportOptions, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class AuditEntries(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_model_pb2.AuditEntry]
    def __init__(self, items: _Optional[_Iterable[_Union[_model_pb2.AuditEntry, _Mapping]]] = ...) -> None: ...

class Flaw(_message.Message):
    __slots__ = ("where", "what")
    WHERE_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    where: str
    what: str
    def __init__(self, where: _Optional[str] = ..., what: _Optional[str] = ...) -> None: ...

class Problem(_message.Message):
    __slots__ = ("code", "detail", "request_id", "errors", "receipt")
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    code: str
    detail: str
    request_id: str
    errors: _containers.RepeatedCompositeFieldContainer[Flaw]
    receipt: _model_pb2.Receipt
    def __init__(self, code: _Optional[str] = ..., detail: _Optional[str] = ..., request_id: _Optional[str] = ..., errors: _Optional[_Iterable[_Union[Flaw, _Mapping]]] = ..., receipt: _Optional[_Union[_model_pb2.Receipt, _Mapping]] = ...) -> None: ...
