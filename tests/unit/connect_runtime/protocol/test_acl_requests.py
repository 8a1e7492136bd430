"""Each request in every version that it claims, and what answers say."""

from __future__ import annotations

import datetime
from typing import Any

import kio.index
import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from kio.static.constants import EntityType

from connect_runtime.protocol import acl_requests, request_framing
from connect_runtime.protocol.acl_requests import AclDescription
from connect_runtime.protocol.request_builders import RequestBuilder


@pytest.mark.parametrize("version", range(8, 14))
def test_rights_on_topics_are_asked_for_in_every_version(version):
    request = acl_requests.build_topic_operations_request(["a", "b"]).build_request_message(version)
    assert [each.name for each in request.topics] == ["a", "b"]
    assert request.include_topic_authorized_operations
    assert not request.allow_auto_topic_creation


@pytest.mark.parametrize("version", range(3, 6))
def test_rights_on_a_group_are_asked_for_in_every_version(version):
    request = acl_requests.build_group_operations_request("g").build_request_message(version)
    assert request.groups == ("g",)
    assert request.include_authorized_operations


def test_rights_on_the_cluster_are_asked_for():
    assert (
        acl_requests.build_cluster_operations_request()
        .build_request_message(0)
        .include_cluster_authorized_operations
    )


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0, frozenset()),
        (1 << 3, {"READ"}),
        (1 << 3 | 1 << 8 | 1 << 10, {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}),
        (1 << 30, frozenset()),
        (-(2**31), None),
    ],
)
def test_bits_are_words_and_the_lowest_number_is_no_answer(bits, words):
    assert acl_requests.decode_authorized_operations(bits) == words


VERSIONS = range(1, 4)
NO_TIME = datetime.timedelta(0)
ONE = AclDescription(
    resource="TOPIC",
    name="orders",
    pattern="PREFIXED",
    principal="User:alice",
    host="*",
    operation="DESCRIBE_CONFIGS",
    permission="DENY",
)
STRANGE = AclDescription(
    resource="GROUP",
    name="*",
    pattern="LITERAL",
    principal="Group:x",
    host="::1",
    operation="77",
    permission="ALLOW",
)


def written(message: RequestBuilder, version: int) -> Any:
    """What a broker reads."""
    body = bytes(request_framing.encode_request_body(message.build_request_message(version)))
    found, size = entity_reader(kio.index.load_request_schema(message.api_key, version))(body, 0)
    assert size == len(body)
    return found


def response(message: RequestBuilder, version: int) -> Any:
    return kio.index.load_payload_module(message.api_key, version, EntityType.response)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_acls_of_topics_are_asked_for(version):
    entity = written(acl_requests.build_describe_topic_acls_request(), version)
    assert (entity.resource_type_filter, entity.pattern_type_filter) == (2, 1)
    assert (entity.operation, entity.permission_type, entity.resource_name_filter) == (1, 1, None)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_created_is_said_in_numbers(version):
    first, second = written(
        acl_requests.build_create_acls_request([ONE, STRANGE]), version
    ).creations
    assert (first.resource_type, first.resource_pattern_type) == (2, 4)
    assert (first.operation, first.permission_type) == (10, 2)
    assert (second.operation, second.resource_name, second.host) == (77, "*", "::1")


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_are_told_in_words(version):
    m = response(acl_requests.build_describe_topic_acls_request(), version)

    def resource(kind: int, name: str, pattern: int, *acls: tuple[str, str, int, int]) -> Any:
        return m.DescribeAclsResource(
            resource_type=kind,
            resource_name=name,
            pattern_type=pattern,
            acls=tuple(
                m.AclDescription(principal=who, host=host, operation=what, permission_type=how)
                for who, host, what, how in acls
            ),
        )

    body = m.DescribeAclsResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        error_message=None,
        resources=(
            resource(2, "orders", 4, ("User:alice", "*", 10, 2)),
            resource(3, "*", 3, ("Group:x", "::1", 77, 3)),
        ),
    )
    assert acl_requests.decode_acls(body) == [ONE, STRANGE]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_creation_has_its_answer(version):
    m = response(acl_requests.build_create_acls_request([]), version)
    body = m.CreateAclsResponse(
        throttle_time=NO_TIME,
        results=tuple(
            m.AclCreationResult(error_code=code, error_message=None)
            for code in (ErrorCode.none, ErrorCode.security_disabled)
        ),
    )
    assert acl_requests.decode_creation_errors(body) == [0, 54]
