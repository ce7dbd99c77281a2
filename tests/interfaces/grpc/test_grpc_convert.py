"""No field is lost between models and messages, and the .proto files describe the messages of the program."""

from __future__ import annotations

import json
import math
import os
import re
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct, Value
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from pydantic import BaseModel, JsonValue, ValidationError

from engram.api.operations import OPERATIONS
from engram.api.requests import EventQuery, ExportQuery, ImportOptions
from engram.errors import InvalidInput
from engram.model import Hit, Memory, MemoryType, Suggestion, Verdict
from engram.model.transfer import ExportReport, ImportReport
from engram.model.wire import LiveEvent, NewMemory
from engram.server.grpc import generate, messages
from engram.server.grpc.convert import DEPTH, from_message, to_message
from engram.server.grpc.messages import DESCRIPTOR
from engram.server.grpc.schema import FOLDER, NUMBERS, Schema, bare

CONTENTS = messages.Content.DESCRIPTOR


def pairs() -> Iterator[tuple[Descriptor, Any]]:
    """Every message that goes in or out, and its model."""
    for operation in OPERATIONS.values():
        method = DESCRIPTOR.methods_by_name[operation.rpc]
        yield method.input_type, operation.request
        yield method.output_type, operation.response
    yield messages.LiveEvent.DESCRIPTOR, LiveEvent
    yield messages.ExportReport.DESCRIPTOR, ExportReport
    yield messages.ImportReport.DESCRIPTOR, ImportReport
    yield messages.NewMemory.DESCRIPTOR, NewMemory
    yield messages.ExportQuery.DESCRIPTOR, ExportQuery
    yield messages.ImportOptions.DESCRIPTOR, ImportOptions
    yield messages.EventQuery.DESCRIPTOR, EventQuery


def inner(field: FieldDescriptor, annotation: Any) -> tuple[Descriptor | None, Any]:
    """The message within a field, if there is one, and what its model is."""
    own = bare(annotation)
    if get_origin(own) is tuple and field.default_value == []:
        own = bare(get_args(own)[0])
    return field.message_type, own


def walk(message: Descriptor, model: Any, seen: set[tuple[str, str]]) -> None:
    """Compare the fields of a message with those of a model, and all that is in them."""
    assert isinstance(model, type), (message.full_name, model)
    assert issubclass(model, BaseModel), (message.full_name, model)
    if (message.full_name, str(model)) in seen:
        return
    seen.add((message.full_name, str(model)))
    fields = dict(model.model_fields)
    if "kind" in fields and message.name.endswith("Content"):
        del fields["kind"]
    assert [field.name for field in message.fields] == [*fields], (message.full_name, model)
    for field in message.fields:
        inside, own = inner(field, fields[field.name].annotation)
        if inside is None:
            words = typing.get_args(own) if get_origin(own) is Literal else own if enumerated(own) else None
            if field.enum_type is not None:
                known = {each.name for each in field.enum_type.values if each.number}
                prefix = field.enum_type.values_by_number[0].name.removesuffix("UNSPECIFIED")
                assert words is not None, (message.full_name, field.name)
                assert known == {prefix + str(word).upper() for word in words}, (message.full_name, field.name)
        elif inside.name == "Content":
            for each in CONTENTS.fields:
                walk(each.message_type, contents()[each.name], seen)
        elif inside.full_name.startswith("engram.v1.") and not inside.GetOptions().map_entry:
            if isinstance(own, type) and issubclass(own, BaseModel):
                walk(inside, own, seen)
            else:
                assert inside.name in {"Interval", "Texts", "Outcome", "Helped", "CycleErrorTold"}, field.full_name


def enumerated(own: Any) -> bool:
    return isinstance(own, type) and issubclass(own, StrEnum)


def contents() -> dict[str, Any]:
    annotation = get_args(Memory.model_fields["content"].annotation) or ()
    return {str(each.model_fields["kind"].default): each for each in annotation}


def test_every_message_has_the_fields_of_its_model() -> None:
    seen: set[tuple[str, str]] = set()
    for message, model in pairs():
        if message.full_name == "google.protobuf.Empty":
            assert not model.model_fields
        else:
            walk(message, model, seen)
    known = {name for name, _ in seen}
    assert {f"engram.v1.{model.__name__}" for model in (Memory, Hit, Suggestion, Verdict)} <= known
    assert len(known) > 90
    assert set(contents()) == {field.name for field in CONTENTS.fields}


# Round trips --------------------------------------------------------------------------------------------

TEXT = st.text(max_size=12)
WHOLE = st.integers(-(2**53), 2**53)
FRACTION = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | FRACTION | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
MOMENT = st.datetimes(timezones=st.just(UTC))


def values(annotation: Any, *, within: bool = True) -> st.SearchStrategy[Any]:
    """Anything that an annotation allows, and what its constraints may refuse."""
    if get_origin(annotation) is Annotated:
        limits = "".join(str(each) for each in get_args(annotation)[1:])
        own = get_args(annotation)[0]
        if own is float and ("ge=0" in limits or "Ge" in limits):
            return st.floats(0, 1)
        return values(own)
    if isinstance(annotation, NewType):
        return values(annotation.__supertype__)
    if annotation is JsonValue:
        return JSON
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in {Union, types.UnionType}:
        return st.one_of([values(each) for each in args])
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(values(args[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(values(each) for each in args))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return st.dictionaries(values(args[0]), values(args[1]), max_size=2)
    if enumerated(annotation):
        return st.sampled_from([*annotation])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return models(annotation)
    simple = {str: TEXT, bool: st.booleans(), float: st.floats(0, 1), datetime: MOMENT, type(None): st.none()}
    return st.integers(1, 60) | st.integers(1, 2**31) if annotation is int else simple[annotation]


def models(model: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(model, include_extras=True)
    generic = {name: field.annotation for name, field in model.model_fields.items()}
    fields = {name: values(generic[name] if "~T" in str(hints[name]) else hints[name]) for name in generic}
    return st.fixed_dictionaries(fields)


EVERY = {message.name: (message, model) for message, model in pairs() if message.full_name.startswith("engram.v1.")}


@settings(
    max_examples=200 if os.environ.get("ENGRAM_LONG") else 10,
    phases=(Phase.generate,),
    suppress_health_check=[*HealthCheck],
)
@pytest.mark.parametrize("name", sorted(EVERY))
@given(data=st.data())
def test_what_a_model_says_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    message, model = EVERY[name]
    told = data.draw(models(model))
    if name.startswith("NewMemor"):
        for draft in told.get("items", [told]):
            draft["content"] = {}
    try:
        before = model.model_validate(told)
    except ValidationError:
        reject()
    kind = GetMessageClass(message)
    sent = to_message(before, kind).SerializeToString()
    after = model.model_validate(from_message(kind.FromString(sent)))
    assert after == before


def test_the_typed_fields_of_a_draft_arrive_with_their_kind() -> None:
    said_so: dict[str, JsonValue] = {
        "kind": "decision",
        "chosen_action": "retry",
        "cost": 0.0,
        "alternative_actions": ["stop"],
    }
    draft = NewMemory(text="x", kind=MemoryType.DECISION, content=said_so)
    told = from_message(to_message(draft, messages.NewMemory), sparse=True)
    assert (told["kind"], told["content"]["kind"], told["content"]["chosen_action"]) == (
        "decision",
        "decision",
        "retry",
    )
    assert (told["content"]["cost"], "duration" in told["content"], "at" in told) == (0.0, False, False)
    assert NewMemory(**told).content["alternative_actions"] == ["stop"]
    with pytest.raises(InvalidInput, match="nonsense"):
        to_message(NewMemory(text="x", content={"kind": "decision", "nonsense": 1}), messages.NewMemory)


def test_json_that_not_everybody_can_read_comes_as_text() -> None:
    deep: Any = "core"
    for _ in range(3 * DEPTH):
        deep = {"in": [deep]}
    draft = NewMemory(text="x", metadata={"id": 2**60 + 1, "deep": deep, "whole": 3, "half": 0.5})
    message = messages.NewMemory.FromString(to_message(draft, messages.NewMemory).SerializeToString())
    told = from_message(message)["metadata"]
    assert (told["id"], told["whole"], told["half"]) == (str(2**60 + 1), 3, 0.5)
    assert type(told["whole"]) is int
    assert "core" in str(told["deep"])


def said(**fields: Any) -> Any:
    return from_message(messages.NewMemory(**fields), sparse=True)


def test_what_no_model_can_say_is_refused() -> None:
    nothing, odd = Struct(), Struct()
    nothing.fields["a"].SetInParent()
    odd.fields["a"].CopyFrom(Value(number_value=math.nan))
    for fields in (
        {"kind": 99},
        {"metadata": nothing},
        {"metadata": odd},
        {"at": {"seconds": 10**15}},
        {"at": {"seconds": 1, "nanos": -1}},
        {"at": {"seconds": 1, "nanos": 10**9}},
    ):
        with pytest.raises(InvalidInput):
            said(**fields)
    with pytest.raises(InvalidInput, match="outcome"):
        from_message(messages.NewOutcome(id="x", outcome=messages.Outcome()))


def test_what_is_left_out_is_not_what_is_empty() -> None:
    assert "used" not in from_message(messages.NewOutcome(id="x"), sparse=True)
    assert from_message(messages.NewOutcome(id="x", used=messages.Texts()), sparse=True)["used"] == []
    assert from_message(messages.SolutionOf(helped=messages.Helped(plainly=False)), sparse=True)["helped"] is False


# The .proto files ---------------------------------------------------------------------------------------


def without_comments(proto: str) -> list[str]:
    return [line for line in proto.splitlines() if line.strip() and not line.strip().startswith("//")]


def test_the_files_describe_the_messages_of_the_program() -> None:
    made = generate.generate(json.loads(NUMBERS.read_bytes()))
    for name, text in made.items():
        kept = (FOLDER / name).read_text(encoding="utf-8")
        assert without_comments(kept) == without_comments(text), f"{name} is of another time; run `make proto`"


def test_a_number_is_never_given_twice() -> None:
    numbers = json.loads(NUMBERS.read_bytes())
    for fields in (fields for file in numbers.values() for fields in file.values()):
        assert len({*fields.values()}) == len(fields)


def test_a_new_field_gets_a_new_number_and_one_that_is_gone_keeps_its_own() -> None:
    numbers = json.loads(NUMBERS.read_bytes())
    fields = numbers["service.proto"]["RecallQuery"]
    highest = max(fields.values())
    fields["gone"] = fields.pop("k")
    schema = Schema(numbers)
    assert schema.added == ["RecallQuery.k"]
    assert fields["k"] == highest + 1
    text = generate.generate(numbers)["service.proto"]
    assert '  reserved 2;\n  reserved "gone";' in text


@pytest.mark.parametrize("name", ["model.proto", "service.proto"])
def test_every_field_message_and_method_is_described(name: str) -> None:
    before, lacking, within_enum = "", [], False
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        stripped = line.strip()
        within_enum = (within_enum or stripped.startswith("enum ")) and stripped != "}"
        declares = re.match(r"(message|enum|service|rpc|oneof) |.* = \d+;$", stripped)
        inside_enum = within_enum and not stripped.startswith("enum ")
        if declares and not inside_enum and not before.startswith("//"):
            lacking.append(stripped)
        before = stripped
    assert lacking == []
