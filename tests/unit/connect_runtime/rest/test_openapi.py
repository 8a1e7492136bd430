from __future__ import annotations

import re
from typing import Any

from connect_runtime.rest import openapi, rest_app
from connect_runtime.rest.rest_settings import RestSettings, WorkerIdentity
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest
from tests.support.rest import Rest

DOCUMENT = openapi.build_openapi_document(WorkerIdentity())


def test_it_describes_every_public_endpoint_and_no_other() -> None:
    parts = rest.parts(FakeHerder())
    served = rest_app.list_public_endpoints(parts, RestSettings()) + rest_app.list_admin_endpoints(
        parts
    )
    internal = {(each.method, each.path) for each in rest_app.list_internal_endpoints(parts)}
    described = {
        (method.upper(), path)
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
    }
    assert described == {(each.method, each.path) for each in served} - internal


def operations() -> list[tuple[str, dict[str, Any]]]:
    return [
        (path, operation)
        for path, methods in DOCUMENT["paths"].items()
        for operation in methods.values()
    ]


def test_every_part_of_a_path_is_a_parameter() -> None:
    for path, operation in operations():
        told = [each["name"] for each in operation.get("parameters", []) if each["in"] == "path"]
        assert told == re.findall(r"\{(\w+)\}", path)


def test_every_operation_says_what_it_answers() -> None:
    for path, operation in operations():
        assert operation["summary"], path
        assert any(int(status) < 300 for status in operation["responses"]), path
        for status, answer in operation["responses"].items():
            assert answer["description"], (path, status)
            assert int(status) < 400 or "content" in answer, (path, status)


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        here = [value["$ref"]] if "$ref" in value else []
        return here + [each for inner in value.values() for each in references(inner)]
    if isinstance(value, list | tuple):
        return [each for inner in value for each in references(inner)]
    return []


def test_every_reference_leads_somewhere_and_every_schema_is_used() -> None:
    known = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert set(references(DOCUMENT)) == known


def test_it_is_served() -> None:
    answer = Rest(FakeHerder())("GET", "/openapi.json")
    assert (answer.status_code, answer.json()["openapi"]) == (200, "3.1.0")
