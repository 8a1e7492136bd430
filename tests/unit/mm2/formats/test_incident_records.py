from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.formats import incident_records
from mm2.formats.incident_records import (
    Incident,
    IncidentKind,
    MalformedIncidentError,
    UnknownIncidentVersionError,
)

GONE = Incident(
    topic="orders",
    partition=7,
    id="source-gone-10-20",
    kind=IncidentKind.SOURCE_GONE,
    flow="primary->backup",
    at_ms=1_790_000_000_000,
    detail="gelöscht",
    source=(10, 20),
)
GONE_KEY = b'{"v":1,"topic":"orders","partition":7,"id":"source-gone-10-20"}'
GONE_VALUE = (
    '{"v":1,"kind":"source-gone","source":[10,20],"target":null,"at_ms":1790000000000,'
    '"flow":"primary->backup","detail":"gelöscht"}'
).encode()

offsets = st.integers(0, 1 << 62)
ranges = st.none() | st.tuples(offsets, offsets)
ordered = st.none() | st.tuples(offsets, offsets).map(lambda both: (min(both), max(both)))
incidents = st.builds(
    Incident,
    topic=st.text(),
    partition=st.integers(0, (1 << 31) - 1),
    id=st.text(),
    kind=st.sampled_from(IncidentKind),
    flow=st.text(),
    at_ms=st.integers(0, 253_402_300_799_999),
    detail=st.text(),
    source=ordered,
    target=ranges,
)


def test_golden_bytes():
    assert incident_records.encode_incident(GONE) == (GONE_KEY, GONE_VALUE)
    assert incident_records.decode_incident(GONE_KEY, GONE_VALUE) == GONE


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (IncidentKind.UNFENCED_TAKE_OVER, "unfenced-take-over"),
        (IncidentKind.NOT_PAIRED, "not-paired"),
        (IncidentKind.SOURCE_GONE, "source-gone"),
        (IncidentKind.DOUBLED_BY_JAVA, "doubled-by-java"),
        (IncidentKind.UNVERIFIED_TAKEOVER, "taken-from-java"),
        (IncidentKind.NEW_ERA_REQUESTED, "new-era-requested"),
        (IncidentKind.OPERATOR_ACTION, "operator-action"),
        (IncidentKind.MAP_RECORD_SKIPPED, "map-record-skipped"),
    ],
)
def test_the_names_of_kinds_are_durable(kind, name):
    _, value = incident_records.encode_incident(dataclasses.replace(GONE, kind=kind))
    assert json.loads(value)["kind"] == name


def test_no_kind_is_left_out_of_the_table_above():
    assert len(IncidentKind) == 8


@given(incidents)
def test_an_incident_is_read_back(stated):
    assert incident_records.decode_incident(*incident_records.encode_incident(stated)) == stated


def test_one_id_of_one_partition_is_one_key():
    again = dataclasses.replace(GONE, at_ms=GONE.at_ms + 1, detail="again")
    assert incident_records.encode_incident(again)[0] == incident_records.encode_incident(GONE)[0]
    other = dataclasses.replace(GONE, partition=8)
    assert incident_records.encode_incident(other)[0] != incident_records.encode_incident(GONE)[0]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (GONE_KEY.replace(b'"v":1', b'"v":2'), GONE_VALUE),
        (GONE_KEY, GONE_VALUE.replace(b'"v":1', b'"v":2')),
    ],
    ids=["key", "value"],
)
def test_another_version_is_refused(key, value):
    with pytest.raises(UnknownIncidentVersionError, match="version 2"):
        incident_records.decode_incident(key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\x01\x02", GONE_VALUE),
        (GONE_KEY, b"not json"),
        (GONE_KEY, b'{"v":1}'),
        (b"{}", GONE_VALUE),
        (GONE_KEY, GONE_VALUE.replace(b"source-gone", b"lost-in-space")),
        (GONE_KEY, GONE_VALUE.replace(b"[10,20]", b"[1]")),
        (GONE_KEY, GONE_VALUE.replace(b"[10,20]", b'["a","b"]')),
        (GONE_KEY, GONE_VALUE.replace(b"[10,20]", b"{}")),
        (GONE_KEY, GONE_VALUE.replace(b"1790000000000", b'"today"')),
        (GONE_KEY, GONE_VALUE.replace(b"1790000000000", b"1790000000000000000")),
        (GONE_KEY, GONE_VALUE.replace(b"1790000000000", b"1e999")),
        (GONE_KEY, GONE_VALUE.replace(b"1790000000000", b"9" * 5000)),
        (GONE_KEY, GONE_VALUE.replace(b"primary->backup", b"\\ud800")),
        (GONE_KEY, GONE_VALUE.replace(b'"primary->backup"', b"5")),
        (GONE_KEY.replace(b"7,", b"true,"), GONE_VALUE),
        (GONE_KEY, b"[" * 100_000),
        (GONE_KEY, b'{"v":true}'),
        (GONE_KEY, GONE_VALUE.replace(b'"v":1', b'"v":true')),
        (GONE_KEY, GONE_VALUE.replace(b'"v":1', b'"v":1.0')),
        (GONE_KEY.replace(b'"v":1', b'"v":true'), GONE_VALUE),
        (GONE_KEY, GONE_VALUE.replace(b"[10,20]", b"[20,10]")),
        (GONE_KEY, GONE_VALUE.decode().encode("utf-16")),
        (GONE_KEY, GONE_VALUE.decode().encode("utf-32")),
        (GONE_KEY, b"\xef\xbb\xbf" + GONE_VALUE),
        (GONE_KEY, GONE_VALUE.replace(b"gel", b"\xed\xa0\x80")),
        (b"[]", b"[]"),
    ],
)
def test_what_is_no_incident_is_refused(key, value):
    with pytest.raises(MalformedIncidentError):
        incident_records.decode_incident(key, value)


def test_the_end_of_an_empty_log_and_a_lost_tail_are_no_mistakes():
    for value in (b'"source":[0,-1],"target":[7,5]', b'"source":[3,-1],"target":[0,-1]'):
        changed = GONE_VALUE.replace(b'"source":[10,20],"target":null', value)
        assert incident_records.decode_incident(GONE_KEY, changed).source is not None


def test_half_a_character_in_the_detail_is_replaced():
    stated = dataclasses.replace(GONE, detail="it says \ud800 and ü")
    assert (
        incident_records.decode_incident(*incident_records.encode_incident(stated)).detail
        == "it says ? and ü"
    )
