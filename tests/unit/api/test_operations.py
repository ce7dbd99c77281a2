"""The table of operations says of each how it is reached, and can be read without the engine."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engram.api.operations import OPERATIONS, Operation
from engram.model.wire import Annotation, CycleEnd, GrantAgreement, NewDecision, TriedSolution

EVERY = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.name)


@pytest.mark.process
def test_the_table_is_imported_without_the_engine() -> None:
    code = "import engram.api.operations, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "sqlalchemy", "fastapi", "grpc", "engram.engine", "engram.stores", "engram.ports", "engram.audit"}
    assert not heavy & set(run.stdout.split())


def test_two_operations_have_two_paths_and_two_rpc_names() -> None:
    assert len({operation.http for operation in OPERATIONS.values()}) == len(OPERATIONS)
    assert len({operation.rpc for operation in OPERATIONS.values()}) == len(OPERATIONS)


@EVERY
def test_every_field_of_a_request_has_one_place(operation: Operation) -> None:
    body = (
        {operation.body_field} if operation.body_field else set(operation.body.model_fields if operation.body else ())
    )
    places = [*operation.path_fields, *operation.query_fields, *operation.headers, *body]
    assert sorted(map(str, places)) == sorted(operation.request.model_fields)


@EVERY
def test_what_only_reads_is_safe_to_repeat(operation: Operation) -> None:
    assert operation.writes or operation.repeat == "safe"
    assert operation.writes or operation.verb in {"GET", "POST"}


def test_a_body_is_the_request_without_what_is_in_the_path() -> None:
    bodies = {"record_decision": NewDecision, "annotate": Annotation, "tell_result": CycleEnd}
    bodies |= {"approve_grant": GrantAgreement, "tell_solution": TriedSolution}
    assert {name: OPERATIONS[name].body for name in bodies} == bodies
    assert OPERATIONS["diff"].path_fields == {"workspace": "name"}
    assert OPERATIONS["list_memories"].query_fields["kinds"] == "kind"
    assert OPERATIONS["release"].body is None
