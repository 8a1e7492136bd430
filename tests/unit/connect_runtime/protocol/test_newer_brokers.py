"""What a newer broker may add to any response (KIP-482), and what a broken one may leave out: every
API that is read, at every level."""

from __future__ import annotations

import pathlib
import random
import re

import kio.index
import pytest

import connect_runtime
from connect_runtime.protocol import (
    api_versions,
    consumer_group_requests,
    fetch_requests,
    produce_requests,
    request_framing,
)
from connect_runtime.protocol.request_errors import MalformedResponseError
from tests.support import kio_bytes, read_apis

SOURCES = pathlib.Path(connect_runtime.__file__).parent
_MESSAGE = re.compile(r'Message\(\s*api="(\w+)", low=(\w+), high=(\w+)')


def _all_versions() -> list[tuple[str, int]]:
    return [
        (api, version)
        for api, (low, high) in read_apis.READ_BY_KIO.items()
        for version in range(low, high + 1)
    ]


def _full(api: str, version: int, seed: int = 1):
    entity_type = kio.index.load_response_schema(api_versions.API_KEYS[api], version)
    return kio_bytes.random_entity(entity_type, random.Random(seed), full=True)


def test_every_message_of_the_product_is_in_the_table():
    for path in SOURCES.rglob("*.py"):
        for api, low, high in _MESSAGE.findall(path.read_text()):
            least, most = read_apis.READ_BY_KIO[api]
            assert not low.isdigit() or least <= int(low), (path, api)
            assert not high.isdigit() or int(high) <= most, (path, api)


@pytest.mark.parametrize(("api", "version"), _all_versions())
def test_an_unknown_tagged_field_at_any_level_changes_nothing(api, version):
    entity = _full(api, version)
    plain = kio_bytes.written(entity)
    assert kio_bytes.written_with(entity) == plain
    levels = kio_bytes.nested_types(type(entity))
    for tagged in [*([each] for each in levels), levels]:
        body = kio_bytes.written_with(entity, tagged=tagged)
        assert (body != plain) == bool(levels)
        assert request_framing.decode_response(type(entity), memoryview(bytearray(body))) == entity


@pytest.mark.parametrize(("api", "version"), _all_versions())
def test_null_where_an_array_must_be_is_a_truncated_response(api, version):
    entity = _full(api, version)
    for null in kio_bytes.arrays(type(entity)):
        body = kio_bytes.written_with(entity, null=null)
        with pytest.raises(MalformedResponseError, match=f"{api} response, version {version}"):
            request_framing.decode_response(type(entity), memoryview(bytearray(body)))


@pytest.mark.parametrize("version", [8, 9])
def test_offsets_of_many_groups_with_unknown_tagged_fields(version):
    entity = _full("offset_fetch", version)
    message = consumer_group_requests.build_multi_group_offset_fetch_request(
        [str(each.group_id) for each in entity.groups]
    )
    expected = message.decode_response(version, memoryview(bytearray(kio_bytes.written(entity))))
    assert expected.changed
    levels = kio_bytes.nested_types(type(entity))
    for tagged in [*([each] for each in levels), levels]:
        body = kio_bytes.written_with(entity, tagged=tagged)
        found = message.decode_response(version, memoryview(bytearray(body)))
        assert [each.offsets for each in found.changed] == [
            each.offsets for each in expected.changed
        ]
        known = {each.group: each.data for each in found.changed}
        again = consumer_group_requests.build_multi_group_offset_fetch_request(
            list(known), seen=known
        )
        assert again.decode_response(version, memoryview(bytearray(body))).unchanged == list(known)
    for null in kio_bytes.arrays(type(entity)):
        body = kio_bytes.written_with(entity, null=null)
        with pytest.raises(MalformedResponseError, match="offset_fetch response"):
            message.decode_response(version, memoryview(bytearray(body)))


HAND_WRITTEN = [
    ("fetch", version)
    for version in range(fetch_requests.FETCH_MIN_VERSION, fetch_requests.FETCH_MAX_VERSION + 1)
]
HAND_WRITTEN += [
    ("produce", version)
    for version in range(
        produce_requests.PRODUCE_MIN_VERSION, produce_requests.PRODUCE_MAX_VERSION + 1
    )
]


def _decode(api: str, version: int, body: bytes):
    view = memoryview(bytearray(body))
    if api == "fetch":
        return fetch_requests.decode_fetch_response(version, view, max_partitions=10)
    return produce_requests.decode_produce_response(version, view)


@pytest.mark.parametrize(("api", "version"), HAND_WRITTEN)
def test_fetch_and_produce_skip_unknown_tagged_fields_and_refuse_null_arrays(api, version):
    entity = _full(api, version)
    expected = _decode(api, version, kio_bytes.written(entity))
    levels = kio_bytes.nested_types(type(entity))
    for tagged in [*([each] for each in levels), levels]:
        body = kio_bytes.written_with(entity, tagged=tagged)
        assert _decode(api, version, body) == expected
    for null in kio_bytes.arrays(type(entity)):
        if null[1] == "node_endpoints":
            continue  # a tagged field that is not read
        body = kio_bytes.written_with(entity, null=null)
        with pytest.raises(MalformedResponseError, match="null"):
            _decode(api, version, body)


def test_whatever_a_decoder_raises_is_a_truncated_response(monkeypatch):
    def broken(_):
        def read(body, at):
            raise KeyError("a decoder's own mistake")

        return read

    monkeypatch.setattr(request_framing, "entity_reader", broken)
    entity = _full("metadata", 12)
    body = memoryview(bytearray(kio_bytes.written(entity)))
    with pytest.raises(MalformedResponseError, match="a decoder's own mistake"):
        request_framing.decode_response(type(entity), body)
    monkeypatch.setattr(consumer_group_requests, "entity_reader", broken)
    entity = _full("offset_fetch", 9)
    with pytest.raises(MalformedResponseError, match="a decoder's own mistake"):
        consumer_group_requests.build_multi_group_offset_fetch_request(["g"]).decode_response(
            9, memoryview(bytearray(kio_bytes.written(entity)))
        )
