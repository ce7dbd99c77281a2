"""Chat exports of OpenAI and Anthropic: `conversations.json`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.model import MemoryType
from engram.model.bundle import Incoming
from engram.text.terms import digest
from engram.transfer.importers.fields import label, list_field, object_field, present_fields, time_value
from engram.transfer.untrusted import ReadLimits, elements, is_folder, open_copy, parse, parse_object

FILE = "conversations.json"
_ROLES = frozenset({"user", "assistant", "tool"})
_TEXTS = frozenset({"text", "multimodal_text"})
_OUTPUT = frozenset({"code", "execution_output"})
_CONVERSATION_FIELDS = ("conversation_id", "id", "uuid", "title", "name", "create_time", "created_at", "current_node")
_SENDERS = {"human": "user", "assistant": "assistant"}


def conversations_file(path: Path) -> Path:
    """Return the conversations file in an unpacked export, or the path itself."""
    found = path / FILE
    return found if is_folder(path) and found.is_file() and not found.is_symlink() else path


def openai(path: Path, limits: ReadLimits) -> Iterator[Incoming]:
    """Yield each message of the current branch, conversation by conversation."""
    for where, conversation in _conversations(conversations_file(path), limits, "mapping"):
        session = label(conversation.get("conversation_id")) or label(conversation.get("id"))
        title = label(conversation.get("title")) or ""
        for id, node in _current_branch(conversation, where):
            message = object_field(node, "message", where)
            author = object_field(message, "author", where)
            role = label(author.get("role"))
            said = _content_text(object_field(message, "content", where), where)
            hidden = object_field(message, "metadata", where).get("is_visually_hidden_from_conversation")
            if role in _ROLES and said and not hidden:
                yield Incoming(
                    text=said,
                    source="openai",
                    original_id=label(message.get("id")) or label(id) or digest(said),
                    kind=MemoryType.MESSAGE,
                    at=time_value(message.get("create_time") or conversation.get("create_time"), where),
                    session=session,
                    role=role,
                    speaker=label(author.get("name")),
                    context=title,
                    metadata=present_fields(object_field(message, "metadata", where), "model_slug"),
                )


def anthropic(path: Path, limits: ReadLimits) -> Iterator[Incoming]:
    """Yield each message and the text of its attachments, conversation by conversation."""
    for where, conversation in _conversations(conversations_file(path), limits, "chat_messages"):
        session, title = label(conversation.get("uuid")), label(conversation.get("name")) or ""
        for number, message in enumerate(list_field(conversation, "chat_messages", where)):
            if not isinstance(message, dict):
                raise InvalidInput(f"{where}: each of chat_messages must be an object")
            id = label(message.get("uuid")) or digest(session or where, str(number))
            at = time_value(message.get("created_at") or conversation.get("created_at"), where)
            sender = label(message.get("sender")) or ""
            role = _SENDERS.get(sender.lower(), sender.lower() or None)
            if said := _message_text(message, where):
                yield Incoming(
                    text=said,
                    source="anthropic",
                    original_id=id,
                    kind=MemoryType.MESSAGE,
                    at=at,
                    session=session,
                    role=role,
                    context=title,
                )
            for place, attached in enumerate(list_field(message, "attachments", where)):
                held = attached.get("extracted_content") if isinstance(attached, dict) else None
                if isinstance(attached, dict) and isinstance(held, str) and held.strip():
                    yield Incoming(
                        text=held,
                        source="anthropic",
                        original_id=f"{id}/{place}",
                        kind=MemoryType.OBSERVATION,
                        at=at,
                        session=session,
                        role=role,
                        context=title,
                        metadata=present_fields(attached, "file_name", "file_type"),
                    )


def _conversations(path: Path, limits: ReadLimits, holds: str) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Yield the conversations of a list, or a single one."""
    with open_copy(path, limits) as copy:
        alone: dict[str, JsonValue] = {}
        for name, where, raw in elements(copy.stream, limits):
            if not name:
                conversation = parse_object(raw, where, limits)
                if conversation.get(holds) is None:
                    raise InvalidInput(f"{where} is no conversation: it has no {holds}")
                yield where, conversation
            elif name in {holds, *_CONVERSATION_FIELDS}:
                alone[name] = parse(raw, where, limits)
        if alone:
            if alone.get(holds) is None:
                raise InvalidInput(f"the file is no conversation: it has no {holds}")
            yield "the conversation", alone


def _current_branch(conversation: dict[str, JsonValue], where: str) -> list[tuple[str, dict[str, JsonValue]]]:
    """Return the nodes from the root to the current one. Raises `InvalidInput` for a cycle."""
    nodes = object_field(conversation, "mapping", where)
    at = conversation.get("current_node")
    if at is None:
        at = next((id for id in reversed(nodes) if not _node(nodes, id, where).get("children")), None)
    found = dict[str, dict[str, JsonValue]]()
    while isinstance(at, str) and at in nodes:
        if at in found:
            raise InvalidInput(f"{where}: the messages of the conversation run in a circle")
        found[at] = _node(nodes, at, where)
        at = found[at].get("parent")
    return list(reversed(found.items()))


def _node(nodes: dict[str, JsonValue], id: str, where: str) -> dict[str, JsonValue]:
    node = nodes[id]
    if not isinstance(node, dict):
        raise InvalidInput(f"{where}: each of mapping must be an object")
    return node


def _content_text(content: dict[str, JsonValue], where: str) -> str:
    kind = content.get("content_type")
    if kind in _OUTPUT:
        own = content.get("text")
        return own.strip() if isinstance(own, str) else ""
    if kind not in _TEXTS:
        return ""
    said = list[str]()
    for part in list_field(content, "parts", where):
        own = part.get("text") if isinstance(part, dict) else part  # what was said aloud is an object with a text
        if isinstance(own, str) and own.strip():
            said.append(own.strip())
    return "\n".join(said)


def _message_text(message: dict[str, JsonValue], where: str) -> str:
    said = [
        block["text"]
        for block in list_field(message, "content", where)
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
    ]
    whole = "\n".join(str(part).strip() for part in said if str(part).strip())
    own = message.get("text")
    return whole or (own.strip() if isinstance(own, str) else "")
