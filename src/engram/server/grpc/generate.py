"""Assign numbers to new fields of the protocol, and write its .proto files; `make proto` runs this."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Iterator

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from engram.server.grpc.schema import ANSWERS, FOLDER, NUMBERS, PACKAGE, Numbers, Schema

WIDTH = 120
HEADS = {
    True: """\
What Engram answers with: the values of the library, field by field.

Times are in UTC. A field that says `optional` may be left out, which means that it is not known. JSON comes as
google.protobuf.Struct or Value, whose numbers are doubles: whole numbers beyond 2^53 come as their digits, and what
is nested deeper than 24 levels comes as a text of JSON.""",
    False: """\
A memory for AI agents that learns from outcomes: the methods of the service, and their requests.

Every call needs a key in its metadata, `authorization: Bearer eng_…`. The key says for which agents it is; if that is
more than one, `engram-agent` (percent-encoded UTF-8) names the one that a call is for. Anything of another agent is
reported as not found. Errors carry a Problem in the trailing metadata `engram-problem-bin`, and its code in
`engram-code`.""",
}


def generate(numbers: Numbers) -> dict[str, str]:
    """Add missing numbers, and return the text of each .proto file, by its name."""
    schema = Schema(numbers)
    texts = {file.name.rpartition("/")[2]: "\n".join(_file(schema, file)) + "\n" for file in schema.files}
    return texts | {"numbers.json": _numbers(schema.numbers)}


def _numbers(numbers: Numbers) -> str:
    """Format the numbers as JSON, one message or enum per line."""
    files = (
        f"  {json.dumps(file)}: {{\n"
        + ",\n".join(f"    {json.dumps(name)}: {json.dumps(fields)}" for name, fields in types.items())
        + "\n  }"
        for file, types in numbers.items()
    )
    return "{\n" + ",\n".join(files) + "\n}\n"


def _file(schema: Schema, file: FileDescriptorProto) -> Iterator[str]:
    yield from _comment(HEADS[file.name.endswith(ANSWERS)])
    yield from ("", 'syntax = "proto3";', "", f"package {file.package};")
    yield from ("", *(f'import "{imported}";' for imported in file.dependency))
    for service in file.service:
        yield from ("", "// The memory of the agents that a key is for.", f"service {service.name} {{")
        for index, method in enumerate(service.method):
            yield from [""] if index else []
            yield from _comment(schema.methods[method.name].summary, "  ")
            request = "stream " * method.client_streaming + _short(method.input_type)
            response = "stream " * method.server_streaming + _short(method.output_type)
            yield f"  rpc {method.name}({request}) returns ({response});"
        yield "}"
    for enum in file.enum_type:
        yield from ("", *_enum(schema, enum))
    for message in file.message_type:
        yield from ("", *_message(schema, message))


def _enum(schema: Schema, enum: EnumDescriptorProto) -> Iterator[str]:
    yield from _comment(schema.enums[enum.name])
    yield f"enum {enum.name} {{"
    yield from (f"  {value.name} = {value.number};" for value in enum.value)
    yield "}"


def _message(schema: Schema, message: DescriptorProto) -> Iterator[str]:
    model = schema.models[message.name]
    yield from _comment(str(inspect.getdoc(model)))
    if not message.field:
        yield f"message {message.name} {{}}"
        return
    yield f"message {message.name} {{"
    if message.reserved_range:
        yield f"  reserved {', '.join(str(gone.start) for gone in message.reserved_range)};"
        yield f"  reserved {', '.join(json.dumps(name) for name in message.reserved_name)};"
    choice = next((each.name for each in message.oneof_decl if not each.name.startswith("_")), None)
    indent = "    " if choice else "  "
    if choice:
        yield from ("  // One of these.", f"  oneof {choice} {{")
    entries = {f".{_full(message, entry)}": entry for entry in message.nested_type}
    for field in message.field:
        yield from _comment(_description(schema, message.name, field.name), indent)
        entry = entries.get(field.type_name)
        if entry is not None:
            kind = f"map<string, {_kind(entry.field[1])}> "
        elif field.label == FieldDescriptorProto.LABEL_REPEATED:
            kind = f"repeated {_kind(field)} "
        else:
            kind = "optional " * field.proto3_optional + f"{_kind(field)} "
        yield f"{indent}{kind}{field.name} = {field.number};"
    if choice:
        yield "  }"
    yield "}"


def _full(message: DescriptorProto, entry: DescriptorProto) -> str:
    return f"{PACKAGE}.{message.name}.{entry.name}"


def _kind(field: FieldDescriptorProto) -> str:
    if field.type_name:
        return _short(field.type_name)
    return str(FieldDescriptorProto.Type.Name(field.type)).removeprefix("TYPE_").lower()


def _short(name: str) -> str:
    return name.removeprefix(f".{PACKAGE}.").removeprefix(".")


def _description(schema: Schema, message: str, field: str) -> str:
    description: str | None = schema.models[message].model_fields[field].description
    if description is None:
        raise ValueError(f"{message}.{field} has no description")
    return description


def _comment(text: str, indent: str = "") -> Iterator[str]:
    for index, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        if index:
            yield f"{indent}//"
        yield from textwrap.wrap(paragraph, WIDTH, initial_indent=f"{indent}// ", subsequent_indent=f"{indent}// ")


if __name__ == "__main__":
    for name, text in generate(json.loads(NUMBERS.read_bytes())).items():
        (FOLDER / name).write_text(text, encoding="utf-8")
