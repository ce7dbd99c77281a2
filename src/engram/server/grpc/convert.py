"""Models as messages and back, field by field, by what the messages are described to have.

A message has the fields of its model under the same names. Where a model has what messages do not know, these take its
place: `Interval` for a pair, `Texts` for texts that may be left out, a message with one `oneof value` for a value of
several kinds, and `Content` for the typed fields of a memory, by its kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from pydantic import BaseModel, TypeAdapter, ValidationError

from engram.clock import EPOCH
from engram.errors import InvalidInput
from engram.model import Content, describe_error

UNION = "value"
"""The name of the `oneof` of a message that stands for a value of several kinds."""
EXACT = 2**53
DEPTH = 24
"""How deep JSON may be nested in a message; what is deeper cannot be read by everybody."""

_TIME, _STRUCT, _VALUE = (f"google.protobuf.{name}" for name in ("Timestamp", "Struct", "Value"))
_content: TypeAdapter[Content] = TypeAdapter(Content)
_INTERVAL, _TEXTS, _CONTENT = (f"engram.v1.{name}" for name in ("Interval", "Texts", "Content"))


# Models to messages ------------------------------------------------------------------------------------


def written(model: BaseModel, kind: type[Message]) -> Any:
    """A model as a message of this kind; nothing that the model says is left out."""
    message = kind()
    _fill(message, model)
    return message


def _fill(message: Message, model: BaseModel) -> None:
    for field in message.DESCRIPTOR.fields:
        value = getattr(model, field.name)
        if value is not None or _is_json(field):
            _put(message, field, value)


def _put(message: Message, field: FieldDescriptor, value: Any) -> None:
    if _is_map(field):
        inner = field.message_type.fields_by_name["value"]
        target = getattr(message, field.name)
        for name, each in value.items():
            if inner.message_type is None:
                target[name] = each
            else:
                _write(target[name], each)
    elif _is_repeated(field):
        target = getattr(message, field.name)
        for each in value:
            if field.message_type is None:
                target.append(_scalar(field, each))
            else:
                _write(target.add(), each)
    elif field.message_type is None:
        setattr(message, field.name, _scalar(field, value))
    else:
        own = getattr(message, field.name)
        own.SetInParent()
        _write(own, value)


def _write(message: Any, value: Any) -> None:
    """Make a message say a value."""
    described: Descriptor = message.DESCRIPTOR
    name = described.full_name
    if name == _TIME:
        since = value - EPOCH
        message.seconds, message.nanos = since.days * 86_400 + since.seconds, since.microseconds * 1000
    elif name == _STRUCT:
        for key, each in value.items():
            _json(message.fields[key], each, 1)
    elif name == _VALUE:
        _json(message, value, 1)
    elif name == _INTERVAL:
        message.low, message.high = value
    elif name == _TEXTS:
        message.items.extend(value)
    elif name == _CONTENT:
        if value:
            content = _typed(value)
            own = getattr(message, content.kind)
            own.SetInParent()
            _fill(own, content)
    elif UNION in described.oneofs_by_name:
        _choose(message, value)
    else:
        _fill(message, value)


def _typed(content: Any) -> Content:
    """The typed fields of a memory, or of a draft, which are no model yet."""
    try:
        return _content.validate_python(content)
    except ValidationError as error:
        raise InvalidInput(f"content: {describe_error(error)}") from None


def _choose(message: Message, value: Any) -> None:
    """Say a value by the field that is made for its type."""
    types = {
        bool: (FieldDescriptor.TYPE_BOOL,),
        int: (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_DOUBLE),
        float: (FieldDescriptor.TYPE_DOUBLE,),
        str: (FieldDescriptor.TYPE_ENUM, FieldDescriptor.TYPE_STRING),
    }
    fields = message.DESCRIPTOR.oneofs_by_name[UNION].fields
    wanted = types.get(type(value), (FieldDescriptor.TYPE_MESSAGE,))
    field = next(field for kind in wanted for field in fields if field.type == kind)
    _put(message, field, value)


def _scalar(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is None:
        return value
    described: EnumDescriptor = field.enum_type
    return described.values_by_name[_prefix(described) + str(value).upper()].number


def _json(message: Value, value: Any, depth: int) -> None:
    """Make a value say JSON: as it is, as far as everybody can read it, and as text where not."""
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
            _json(message.struct_value.fields[key], each, depth + 1)
    else:
        message.list_value.SetInParent()
        for each in value:
            _json(message.list_value.values.add(), each, depth + 1)


# Messages to models ------------------------------------------------------------------------------------


def read(message: Message, *, sparse: bool = False) -> dict[str, Any]:
    """What a message says, as the fields of its model. What it does not say is none or, with `sparse`, left out.

    Raises `InvalidInput` for what no model can say.
    """
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence:
            if message.HasField(field.name):
                found[field.name] = _said(field, getattr(message, field.name), sparse=sparse)
            elif not sparse:
                found[field.name] = None
            continue
        value = getattr(message, field.name)
        if _is_map(field):
            inner = field.message_type.fields_by_name["value"]
            told: Any = {name: _said(inner, each, sparse=sparse) for name, each in value.items()}
        elif _is_repeated(field):
            told = [_said(field, each, sparse=sparse) for each in value]
        elif field.enum_type is not None and not value:
            told = None
        else:
            told = _said(field, value, sparse=sparse)
        if told is not None or not sparse:
            found[field.name] = told
    return found


def _said(field: FieldDescriptor, value: Any, *, sparse: bool) -> Any:
    if field.enum_type is not None:
        return _word(field, value)
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name == _TIME:
        return _moment(field.name, value.seconds, value.nanos)
    if name == _STRUCT:
        return {key: _plain(field.name, each) for key, each in value.fields.items()}
    if name == _VALUE:
        return _plain(field.name, value)
    if name == _INTERVAL:
        return (value.low, value.high)
    if name == _TEXTS:
        return [*value.items]
    if name == _CONTENT:
        kind = value.WhichOneof("content")
        return {} if kind is None else {"kind": kind, **read(getattr(value, kind), sparse=sparse)}
    if UNION in field.message_type.oneofs_by_name:
        chosen = value.WhichOneof(UNION)
        if chosen is None:
            raise InvalidInput(f"{field.name} is empty; leave it out, or say what it is")
        return _said(field.message_type.fields_by_name[chosen], getattr(value, chosen), sparse=sparse)
    return read(value, sparse=sparse)


def _word(field: FieldDescriptor, number: int) -> str:
    described: EnumDescriptor = field.enum_type
    known = described.values_by_number.get(number)
    if known is None or number == 0:
        words = ", ".join(_words(described))
        raise InvalidInput(f"{field.name} has the number {number}, which says nothing; there are {words}")
    return str(known.name).removeprefix(_prefix(described)).lower()


def _words(described: EnumDescriptor) -> Iterable[str]:
    return (str(value.name) for value in described.values if value.number)


def _prefix(described: EnumDescriptor) -> str:
    return str(described.values_by_number[0].name).removesuffix("UNSPECIFIED")


def _moment(name: str, seconds: int, nanos: int) -> datetime:
    if not 0 <= nanos < 1_000_000_000:
        raise InvalidInput(f"{name} is no time: its nanos must be from 0 to 999,999,999")
    try:
        return EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise InvalidInput(f"{name} is no time: it lies outside of the years 1 to 9999") from None


def _plain(name: str, value: Value) -> Any:
    """The JSON that a value says; a whole number is one, also where it is written as a fraction."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        struct: Struct = value.struct_value
        return {key: _plain(name, each) for key, each in struct.fields.items()}
    if kind == "list_value":
        several: ListValue = value.list_value
        return [_plain(name, each) for each in several.values]
    if kind == "number_value":
        number: float = value.number_value
        if number != number or number in (float("inf"), float("-inf")):  # noqa: PLR0124 - that is what NaN is
            raise InvalidInput(f"{name} has a number that JSON does not know")
        return int(number) if number.is_integer() and abs(number) <= EXACT else number
    if kind is None:
        raise InvalidInput(f"{name} has a value that says nothing; say null, if that is meant")
    return None if kind == "null_value" else getattr(value, kind)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _is_json(field: FieldDescriptor) -> bool:
    """Whether a field can say null, which is not the same as nothing."""
    return field.message_type is not None and bool(field.message_type.full_name == _VALUE)


def _is_repeated(field: FieldDescriptor) -> bool:
    return bool(field.default_value == [])  # what all versions of protobuf say alike
