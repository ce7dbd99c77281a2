"""The protocol as descriptors, built from the models of the operations.

A message has the fields of its model, in their order. `v1/numbers.json` has the number of each field and of each value
of an enum, so that none of them ever changes. `generate.py` adds numbers for new ones, and writes the .proto files for
clients in other languages.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NewType, Union, get_args, get_origin

from google.protobuf import empty_pb2, struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.message import Message
from pydantic import BaseModel, Field, JsonValue, create_model
from pydantic.fields import FieldInfo

from engram.api.operations import OPERATIONS
from engram.api.requests import AgentName, EventQuery, ExportQuery, ImportOptions, Nothing
from engram.model import (
    AgentCycle,
    DecisionTemplate,
    EvaluationReport,
    ExecutionResult,
    FailurePattern,
    Memory,
    PreventionCheck,
    Receipt,
    RecordedOutcome,
    RunSummary,
    StepResult,
    SuccessPattern,
    Workspace,
    bundle,
    grant,
    success,
    workspace,
)
from engram.model.api_key import Right
from engram.model.content import Frozen
from engram.model.episode import OutcomeName
from engram.model.grant import Grant, GrantUse
from engram.model.memory import Quarantined
from engram.model.retention import LegalHold, Retained
from engram.model.transfer import ExportReport, ImportReport
from engram.model.wire import (
    AgentView,
    CycleDecision,
    CycleError,
    Flaw,
    GroupView,
    LiveEvent,
    NewMemory,
    Page,
    RecallQuery,
)

PACKAGE = "engram.v1"
SERVICE = "Engram"
FOLDER = Path(__file__).parent / "v1"
NUMBERS = FOLDER / "numbers.json"
IMPORT = "engram/server/grpc/v1/"
"""The folder under which .proto files import each other."""
ANSWERS, REQUESTS = "model.proto", "service.proto"
UNION = "value"
"""The name of the `oneof` in a message for a value of several types."""

Numbers = dict[str, dict[str, dict[str, int]]]
"""File → message or enum → field or value → number, in the order of declaration."""


# Messages that only this protocol has -------------------------------------------------------------------


class CallProblem(Frozen):
    """The reason why a call failed. Every error has it in the trailing metadata `engram-problem-bin`."""

    code: str = Field(description="Code of the error, the same in every interface.")
    detail: str = Field(description="What happened, and what to do next.")
    request_id: str = Field(description="Identifies the call in the server's log.")
    errors: tuple[Flaw, ...] = Field(default=(), description="All flaws of an invalid request.")
    receipt: Receipt | None = Field(default=None, description="Receipt of a memory that was not stored.")


class IntervalMessage(Frozen):
    """An interval, both ends included."""

    low: float = Field(description="Lower end.")
    high: float = Field(description="Upper end.")


class Texts(Frozen):
    """An optional list of texts; a missing one differs from an empty one."""

    items: tuple[str, ...] = Field(description="The texts, in their order.")


class OneOf(Frozen):
    """A value of one of several types: exactly one of the fields is set."""

    oneof: ClassVar[str] = UNION


class OutcomeValue(OneOf):
    """An outcome: a word or a number."""

    word: OutcomeName = Field(description="As a word.")
    quality: float = Field(description="As a number from 0 (failure) to 1 (success).")


class Helped(OneOf):
    """The degree to which a solution helped: yes, no, or a number."""

    plainly: bool = Field(description="Yes or no.")
    share: float = Field(description="From 0 to 1.")


class CycleErrorTold(OneOf):
    """An error that the caller reports."""

    text: str = Field(description="As text.")
    error: CycleError = Field(description="With its details.")


class ScorePart(OneOf):
    """A part of a score."""

    count: int = Field(description="As an integer.")
    amount: float = Field(description="As a number.")
    text: str = Field(description="As text.")


class ExportPart(OneOf):
    """A part of a knowledge file, or the report of its export."""

    oneof: ClassVar[str] = "part"
    data: bytes = Field(description="The next bytes of the file.")
    report: ExportReport = Field(description="The report of what was written; the last part.")


class ImportPart(OneOf):
    """A part of a knowledge file, or the options for importing it."""

    oneof: ClassVar[str] = "part"
    options: ImportOptions = Field(description="How to import the file; only as the first part.")
    data: bytes = Field(description="The next bytes of the file.")


class _ContentOneOf(OneOf):
    """The typed fields of a memory, by its kind."""

    oneof: ClassVar[str] = "content"


def bare(annotation: Any) -> Any:
    """Strip constraints, aliases and `None` from an annotation."""
    while not isinstance(annotation, type):
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif get_origin(annotation) in {Union, types.UnionType} and type(None) in get_args(annotation):
            annotation = Union[tuple(each for each in get_args(annotation) if each is not type(None))]  # noqa: UP007
        else:
            break
    return annotation


def _field_type(model: type[BaseModel], field: str) -> Any:
    return bare(model.model_fields[field].annotation)


CONTENTS: dict[str, type[BaseModel]] = {
    str(each.model_fields["kind"].default): each for each in get_args(_field_type(Memory, "content"))
}
"""The model of the typed fields of each kind of memory."""
Content = create_model(
    "Content",
    __base__=_ContentOneOf,
    __doc__=_ContentOneOf.__doc__,
    **{kind: (model, Field(description=str(model.__doc__))) for kind, model in CONTENTS.items()},  # type: ignore[call-overload]
)
_UNIONS = {
    frozenset(_field_type(choice, name) for name in choice.model_fields): choice
    for choice in (OutcomeValue, Helped, CycleErrorTold, ScorePart, Content)
}
"""The messages for unions, by the types of the union; a new union needs a class that names its fields."""


# Names --------------------------------------------------------------------------------------------------

_MESSAGES: dict[Any, str] = {
    AgentName: "Named",
    CallProblem: "Problem",
    IntervalMessage: "Interval",
    OutcomeValue: "Outcome",
    bundle.Finding: "FileFinding",
    bundle.Verification: "FileVerification",
    grant.Source: "KnowledgeSource",
    success.Condition: "BranchCondition",
    workspace.Change: "FileChange",
    Page[AgentCycle]: "CyclePage",
    Page[AgentView]: "AgentPage",
    Page[DecisionTemplate]: "TemplatePage",
    Page[FailurePattern]: "FailurePage",
    Page[GrantUse]: "UsePage",
    Page[GroupView]: "GroupPage",
    Page[LegalHold]: "HoldPage",
    Page[PreventionCheck]: "CheckPage",
    Page[Quarantined]: "QuarantinePage",
    Page[RecordedOutcome]: "OutcomePage",
    Page[RunSummary]: "RunPage",
    Page[SuccessPattern]: "SuccessPage",
}
"""Messages whose names differ from those of their models."""

_ENUMS: dict[Any, str] = {
    _field_type(workspace.Change, "kind"): "ChangeKind",
    _field_type(PreventionCheck, "status"): "CheckStatus",
    _field_type(AgentCycle, "status"): "CycleStatus",
    _field_type(workspace.WorkspaceFile, "kind"): "FileKind",
    _field_type(Grant, "audience"): "Audience",
    _field_type(RecallQuery, "group_by"): "Grouping",
    _field_type(ExportQuery, "form"): "KnowledgeForm",
    _field_type(EvaluationReport, "period"): "Period",
    _field_type(CycleDecision, "how"): "Resolution",
    _field_type(Retained, "action"): "RetentionAction",
    _field_type(ExecutionResult, "status"): "RunStatus",
    _field_type(Workspace, "secrets"): "SecretsPolicy",
    _field_type(grant.Source, "kind"): "SourceKind",
    _field_type(StepResult, "status"): "StepStatus",
    OutcomeName: "OutcomeWord",
    grant.Right: "GrantRight",
}
"""Enums that are named neither as their class nor, if they are literals, `<Message><Field>`."""


@dataclass(frozen=True)
class Rpc:
    """A method of the service: an operation, or one that streams requests or responses."""

    right: Right
    request: Any
    response: Any
    summary: str
    client: bool = False
    """True if the client sends a stream."""
    server: bool = False
    """True if the server sends a stream."""


STREAMING = {
    "RememberStream": Rpc(
        "write",
        NewMemory,
        Receipt,
        "Store any number of memories; a receipt comes for each, in their order, after its commit.",
        client=True,
        server=True,
    ),
    "ExportKnowledge": Rpc(
        "share", ExportQuery, ExportPart, "Send a knowledge file: its bytes, then the report about it.", server=True
    ),
    "ImportKnowledge": Rpc(
        "write",
        ImportPart,
        ImportReport,
        "Import a knowledge file: the options first, if any, then its bytes.",
        client=True,
    ),
    "Listen": Rpc("read", EventQuery, LiveEvent, "Report events as they happen; resumable by `after`.", server=True),
}


# Descriptors --------------------------------------------------------------------------------------------

_SCALARS = {
    bool: FieldDescriptorProto.TYPE_BOOL,
    bytes: FieldDescriptorProto.TYPE_BYTES,
    float: FieldDescriptorProto.TYPE_DOUBLE,
    int: FieldDescriptorProto.TYPE_INT64,
    str: FieldDescriptorProto.TYPE_STRING,
}
_WELL_KNOWN = {JsonValue: struct_pb2.Value, datetime: timestamp_pb2.Timestamp, Nothing: empty_pb2.Empty}
_OPTIONAL, _REPEATED = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED


class Schema:
    """The files of the protocol, built from the models and the given numbers.

    A field, enum value or type without a number gets the next one, and is listed in `added`.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.added: list[str] = []
        self.models: dict[str, Any] = {}
        """The model of each message."""
        self.enums: dict[str, str] = {}
        """The description of each enum."""
        self._types: dict[str, DescriptorProto | EnumDescriptorProto] = {}
        self._file_of = {name: file for file, types in numbers.items() for name in types}
        service = ServiceDescriptorProto(name=SERVICE)
        unary = {
            each.rpc: Rpc(each.right, each.request, each.response, str(each.function.__doc__))
            for each in OPERATIONS.values()
        }
        self.methods = {**unary, **STREAMING}
        for name, method in self.methods.items():
            service.method.add(
                name=name,
                input_type=self._type(method.request, REQUESTS),
                output_type=self._type(method.response, REQUESTS),
                client_streaming=method.client or None,
                server_streaming=method.server or None,
            )
        self._type(CallProblem, REQUESTS)
        self.files = [self._file(ANSWERS), self._file(REQUESTS, service)]

    def _file(self, name: str, *services: ServiceDescriptorProto) -> FileDescriptorProto:
        file = FileDescriptorProto(name=IMPORT + name, package=PACKAGE, syntax="proto3", service=services)
        for declared in self.numbers[name]:
            described = self._types.get(declared)
            if isinstance(described, DescriptorProto):
                file.message_type.append(described)
            elif described is not None:
                file.enum_type.append(described)
        data = file.SerializeToString()
        known = (*_WELL_KNOWN.values(), struct_pb2.Struct)
        imported = {each.DESCRIPTOR.file.name for each in known if _full(each).encode() in data}
        file.dependency.extend([*([IMPORT + ANSWERS] if services else ()), *sorted(imported)])
        return file

    def _number(self, file: str, declared: str, name: str) -> int:
        known = self.numbers.setdefault(file, {}).setdefault(declared, {})
        if name not in known:
            known[name] = max(known.values(), default=0) + 1
            self.added.append(f"{declared}.{name}")
        return known[name]

    def _type(self, kind: Any, file: str) -> str:
        """Return the full name of the message for a model or a union."""
        if kind in _WELL_KNOWN:
            return _full(_WELL_KNOWN[kind])
        name = _MESSAGES.get(kind) or _default_name(kind)
        if name not in self._types:
            described = self._types[name] = DescriptorProto(name=name)
            file = self._file_of.setdefault(name, file)
            self.numbers.setdefault(file, {}).setdefault(name, {})
            self.models[name] = kind
            self._fill(described, kind, file)
            _reserve(described, self.numbers[file][name])
        elif self.models[name].model_fields.keys() != kind.model_fields.keys():
            raise RuntimeError(f"two models are called {name}; give one of them another name in _MESSAGES")
        return f".{PACKAGE}.{name}"

    def _fill(self, described: DescriptorProto, model: type[BaseModel], file: str) -> None:
        if issubclass(model, OneOf):
            described.oneof_decl.add(name=model.oneof)
        for name, info in model.model_fields.items():
            if name == "kind" and model in CONTENTS.values():
                continue  # the field of `Content` determines the kind
            field = described.field.add(name=name, number=self._number(file, described.name, name))
            annotation = Content if (model, name) == (NewMemory, "content") else info.annotation
            optional = type(None) in get_args(info.annotation)
            self._describe(described, field, annotation, file, optional=optional)
            if issubclass(model, OneOf):
                field.oneof_index = 0
            elif field.label == _OPTIONAL and field.type in _SCALARS.values() and (optional or _has_default(info)):
                field.proto3_optional = True
                field.oneof_index = len(described.oneof_decl)
                described.oneof_decl.add(name=f"_{name}")

    def _describe(
        self,
        within: DescriptorProto,
        field: FieldDescriptorProto,
        annotation: Any,
        file: str,
        *,
        optional: bool = False,
    ) -> None:
        """Set the type of a field by its annotation."""
        own, origin, args = bare(annotation), get_origin(bare(annotation)), get_args(bare(annotation))
        field.label = _OPTIONAL
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        if own in _SCALARS:
            field.type = _SCALARS[own]
        elif origin is tuple and args == (args[0], ...) and not optional:
            self._describe(within, field, args[0], file)
            field.label = _REPEATED
        elif origin is tuple:
            field.type_name = self._type(Texts if ... in args else IntervalMessage, file)
        elif isinstance(origin, type) and issubclass(origin, Mapping):
            if bare(args[1]) is JsonValue:
                field.type_name = _full(struct_pb2.Struct)
            else:
                field.type_name = self._map(within, field.name, args[1], file)
                field.label = _REPEATED
        elif origin is Literal and not all(str(word).isidentifier() for word in args):
            field.type = FieldDescriptorProto.TYPE_STRING  # not allowed in the names of enum values
        elif origin is Literal or (isinstance(own, type) and issubclass(own, StrEnum)):
            field.type = FieldDescriptorProto.TYPE_ENUM
            field.type_name = self._enum(own, f"{within.name}.{field.name}", file)
        elif origin in {Union, types.UnionType}:
            field.type_name = self._type(_UNIONS[frozenset(bare(each) for each in args)], file)
        else:
            field.type_name = self._type(own, file)

    def _map(self, within: DescriptorProto, name: str, annotation: Any, file: str) -> str:
        entry = within.nested_type.add(name=f"{_camel(name)}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=_OPTIONAL, type=FieldDescriptorProto.TYPE_STRING)
        self._describe(entry, entry.field.add(name="value", number=2), annotation, file)
        return f".{PACKAGE}.{within.name}.{entry.name}"

    def _enum(self, kind: Any, place: str, file: str) -> str:
        message, _, field = place.partition(".")
        default = kind.__name__ if isinstance(kind, type) else message + _camel(field)
        name = default if default in self._file_of else _ENUMS.get(kind, default)
        if name not in self._types:
            described = self._types[name] = EnumDescriptorProto(name=name)
            file = self._file_of.setdefault(name, file)
            self.enums[name] = str(kind.__doc__) if isinstance(kind, type) else f"Values of `{place}`."
            prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()
            described.value.add(name=f"{prefix}_UNSPECIFIED", number=0)
            words = {str(word): self._number(file, name, str(word)) for word in get_args(kind) or kind}
            for word, number in sorted(words.items(), key=lambda each: each[1]):
                described.value.add(name=f"{prefix}_{word.upper()}", number=number)
        return f".{PACKAGE}.{name}"


def _full(kind: type[Message]) -> str:
    return f".{kind.DESCRIPTOR.full_name}"


def _reserve(described: DescriptorProto, numbers: Mapping[str, int]) -> None:
    """Reserve the names and numbers of removed fields."""
    present = {field.name for field in described.field}
    for name, number in numbers.items():
        if name not in present:
            described.reserved_name.append(name)
            described.reserved_range.add(start=number, end=number + 1)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _default_name(model: Any) -> str:
    """Return `MemoryPage` for `Page[Memory]`, and the name of the class for any other model."""
    items = model.__pydantic_generic_metadata__["args"]
    return f"{items[0].__name__}Page" if items else model.__name__


def _has_default(info: FieldInfo) -> bool:
    """Return True if the default of a field is not the zero value of its type."""
    return not info.is_required() and bool(info.get_default(call_default_factory=True))
