"""Convert models to messages and back, field by field, as the descriptors of the messages say.

A message has the fields of its model under the same names. Some types have their own messages: `Interval` for a pair of
numbers, `Texts` for optional texts, a message with one `oneof value` for a union, and `Content` for the typed fields of
a memory, by its kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from pydantic import BaseModel, TypeAdapter, ValidationError

from engram.clock import EPOCH
from engram.errors import InvalidInput
from engram.model import Content, describe_error
from engram.server.grpc.schema import UNION

EXACT = 2**53
DEPTH = 24
"""The deepest nesting of JSON in a message, which every implementation of protobuf can read."""

_TIME, _STRUCT, _VALUE = (f"google.protobuf.{name}" for name in ("Timestamp", "Struct", "Value"))
_content: TypeAdapter[Content] = TypeAdapter(Content)
_INTERVAL, _TEXTS, _CONTENT = (f"engram.v1.{name}" for name in ("Interval", "Texts", "Content"))


# Models to messages ------------------------------------------------------------------------------------


def to_message(model: BaseModel, kind: type[Message]) -> Any:
    """Convert a model to a message of this type."""
    message = kind()
    _fill(message, model)
    return message


def _fill(message: Message, model: BaseModel) -> None:
    for field in message.DESCRIPTOR.fields:
        value = getattr(model, field.name)
        if value is not None or _is_json(field):
            _set_field(message, field, value)


def _set_field(message: Message, field: FieldDescriptor, value: Any) -> None:
    if _is_map(field):
        inner = field.message_type.fields_by_name["value"]
        target = getattr(message, field.name)
        for name, each in value.items():
            if inner.message_type is None:
                target[name] = each
            else:
                _set_value(target[name], each)
    elif _is_repeated(field):
        target = getattr(message, field.name)
        for each in value:
            if field.message_type is None:
                target.append(_scalar(field, each))
            else:
                _set_value(target.add(), each)
    elif field.message_type is None:
        setattr(message, field.name, _scalar(field, value))
    else:
        own = getattr(message, field.name)
        own.SetInParent()
        _set_value(own, value)


def _set_value(message: Any, value: Any) -> None:
    """Set the fields of a message from a value."""
    described: Descriptor = message.DESCRIPTOR
    name = described.full_name
    if name == _TIME:
        since = value - EPOCH
        message.seconds, message.nanos = since.days * 86_400 + since.seconds, since.microseconds * 1000
    elif name == _STRUCT:
        for key, each in value.items():
            _fill_json(message.fields[key], each, 1)
    elif name == _VALUE:
        _fill_json(message, value, 1)
    elif name == _INTERVAL:
        message.low, message.high = value
    elif name == _TEXTS:
        message.items.extend(value)
    elif name == _CONTENT:
        if value:
            content = _typed_content(value)
            own = getattr(message, content.kind)
            own.SetInParent()
            _fill(own, content)
    elif UNION in described.oneofs_by_name:
        _fill_choice(message, value)
    else:
        _fill(message, value)


def _typed_content(content: Any) -> Content:
    """Return the typed fields of a memory as their model; those of a draft are still a mapping."""
    try:
        return _content.validate_python(content)
    except ValidationError as error:
        raise InvalidInput(f"content: {describe_error(error)}") from None


def _fill_choice(message: Message, value: Any) -> None:
    """Set the field of a union for the type of a value."""
    types = {
        bool: (FieldDescriptor.TYPE_BOOL,),
        int: (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_DOUBLE),
        float: (FieldDescriptor.TYPE_DOUBLE,),
        str: (FieldDescriptor.TYPE_ENUM, FieldDescriptor.TYPE_STRING),
    }
    fields = message.DESCRIPTOR.oneofs_by_name[UNION].fields
    wanted = types.get(type(value), (FieldDescriptor.TYPE_MESSAGE,))
    field = next(field for kind in wanted for field in fields if field.type == kind)
    _set_field(message, field, value)


def _scalar(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is None:
        return value
    described: EnumDescriptor = field.enum_type
    return described.values_by_name[_prefix(described) + str(value).upper()].number


def _fill_json(message: Value, value: Any, depth: int) -> None:
    """Set a JSON value; large integers and deeply nested parts, which not every reader supports, become text."""
    if value is None:
        message.null_value = 0
    elif isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, int) and abs(value) > EXACT:
        message.string_value = str(value)
    elif isinstance(value, int | float):
        message.number_value = value
    elif isinstance(value, str):
        message.string_value = value
    elif depth >= DEPTH and value:
        message.string_value = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, Mapping):
        message.struct_value.SetInParent()
        for key, each in value.items():
            _fill_json(message.struct_value.fields[key], each, depth + 1)
    else:
        message.list_value.SetInParent()
        for each in value:
            _fill_json(message.list_value.values.add(), each, depth + 1)


# Messages to models ------------------------------------------------------------------------------------


def from_message(message: Message, *, sparse: bool = False) -> dict[str, Any]:
    """Convert a message to the fields of a model; unset ones are `None` or, with `sparse`, left out.

    Raises `InvalidInput` for values that are invalid in every model.
    """
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence:
            if message.HasField(field.name):
                found[field.name] = _field_value(field, getattr(message, field.name), sparse=sparse)
            elif not sparse:
                found[field.name] = None
            continue
        value = getattr(message, field.name)
        if _is_map(field):
            inner = field.message_type.fields_by_name["value"]
            content: Any = {name: _field_value(inner, each, sparse=sparse) for name, each in value.items()}
        elif _is_repeated(field):
            content = [_field_value(field, each, sparse=sparse) for each in value]
        elif field.enum_type is not None and not value:
            content = None
        else:
            content = _field_value(field, value, sparse=sparse)
        if content is not None or not sparse:
            found[field.name] = content
    return found


def _field_value(field: FieldDescriptor, value: Any, *, sparse: bool) -> Any:
    if field.enum_type is not None:
        return _enum_word(field, value)
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name == _TIME:
        return _datetime(field.name, value.seconds, value.nanos)
    if name == _STRUCT:
        return {key: _json_value(field.name, each) for key, each in value.fields.items()}
    if name == _VALUE:
        return _json_value(field.name, value)
    if name == _INTERVAL:
        return (value.low, value.high)
    if name == _TEXTS:
        return [*value.items]
    if name == _CONTENT:
        kind = value.WhichOneof("content")
        return {} if kind is None else {"kind": kind, **from_message(getattr(value, kind), sparse=sparse)}
    if UNION in field.message_type.oneofs_by_name:
        chosen = value.WhichOneof(UNION)
        if chosen is None:
            raise InvalidInput(f"{field.name} is empty; leave it out, or give it a value")
        return _field_value(field.message_type.fields_by_name[chosen], getattr(value, chosen), sparse=sparse)
    return from_message(value, sparse=sparse)


def _enum_word(field: FieldDescriptor, number: int) -> str:
    described: EnumDescriptor = field.enum_type
    known = described.values_by_number.get(number)
    if known is None or number == 0:
        words = ", ".join(_enum_words(described))
        raise InvalidInput(f"{field.name} has the number {number}, which is none of its values; there are {words}")
    return str(known.name).removeprefix(_prefix(described)).lower()


def _enum_words(described: EnumDescriptor) -> Iterable[str]:
    return (str(value.name) for value in described.values if value.number)


@cache
def _prefix(described: EnumDescriptor) -> str:
    return str(described.values_by_number[0].name).removesuffix("UNSPECIFIED")


def _datetime(name: str, seconds: int, nanos: int) -> datetime:
    if not 0 <= nanos < 1_000_000_000:
        raise InvalidInput(f"{name} is no time: its nanos must be from 0 to 999,999,999")
    try:
        return EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise InvalidInput(f"{name} is no time: it lies outside of the years 1 to 9999") from None


def _json_value(name: str, value: Value) -> Any:
    """Read JSON from a value; a double without a fraction becomes an integer."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        struct: Struct = value.struct_value
        return {key: _json_value(name, each) for key, each in struct.fields.items()}
    if kind == "list_value":
        several: ListValue = value.list_value
        return [_json_value(name, each) for each in several.values]
    if kind == "number_value":
        number: float = value.number_value
        if number != number or number in (float("inf"), float("-inf")):  # noqa: PLR0124 - that is what NaN is
            raise InvalidInput(f"{name} has a number that JSON does not know")
        return int(number) if number.is_integer() and abs(number) <= EXACT else number
    if kind is None:
        raise InvalidInput(f"{name} has a value that is not set; send null, if that is meant")
    return None if kind == "null_value" else getattr(value, kind)


@cache
def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


@cache
def _is_json(field: FieldDescriptor) -> bool:
    """Return True if a field holds JSON, whose null differs from an unset field."""
    return field.message_type is not None and bool(field.message_type.full_name == _VALUE)


@cache
def _is_repeated(field: FieldDescriptor) -> bool:
    return bool(field.default_value == [])  # supported by all versions of protobuf
