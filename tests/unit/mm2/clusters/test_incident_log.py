from __future__ import annotations

import pytest

from mm2.clusters import incident_log
from mm2.clusters.incident_log import IncidentLog
from mm2.formats import incident_records
from mm2.formats.incident_records import Incident, IncidentKind
from tests.fakes.one_side import FakeSide

TOPIC = "mm2-incidents.east.internal"


def stated(id: str, at_ms: int, detail: str = "") -> Incident:
    return Incident(
        topic="orders",
        partition=0,
        id=id,
        kind=IncidentKind.SOURCE_GONE,
        flow="east->west",
        at_ms=at_ms,
        detail=detail,
        source=(3, 9),
    )


def read(*records):
    side = FakeSide("west")
    side.topics.topics[TOPIC] = records
    return incident_log.read_incidents(side, "east", timeout_s=5.0)


def test_each_statement_once_as_it_was_made_last_oldest_first():
    a, b, again = stated("a", 7), stated("b", 5), stated("a", 9, "again")
    gone = incident_records.encode_incident(stated("c", 1))
    found = read(
        *map(incident_records.encode_incident, (a, b, again)), gone, (gone[0], None), (None, b"x")
    )
    assert (found.incidents, found.unreadable) == ([b, again], [])


def test_without_a_topic_there_are_none():
    assert incident_log.read_incidents(FakeSide("west"), "east", timeout_s=5.0) == IncidentLog()


@pytest.mark.parametrize(
    "record",
    [
        (b"x", b"y"),
        (b"[]", b"[]"),
        (b"deep", b"[" * 100_000),
        (incident_records.encode_incident(stated("a", 1))[0], b'{"v":9}'),
        (incident_records.encode_incident(stated("a", 1))[0], b'{"v":1}'),
    ],
)
def test_a_record_that_cannot_be_read_hides_no_other(record):
    before, behind = stated("b", 5), stated("c", 6)
    found = read(
        incident_records.encode_incident(before), record, incident_records.encode_incident(behind)
    )
    assert found.incidents == [before, behind]
    (unreadable,) = found.unreadable
    assert (unreadable.topic, unreadable.offset) == (TOPIC, 1)
    assert unreadable.reason


def test_a_tombstone_takes_an_unreadable_record_away():
    assert read((b"x", b"y"), (b"x", None)) == IncidentLog()
