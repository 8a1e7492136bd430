"""Translated offsets as people, programs and Kafka's tool read them."""

from __future__ import annotations

import json

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.cli import offset_translation_output
from mm2.cli.offset_translation_output import TranslationResult
from mm2.client.translation_outcomes import (
    Basis,
    BeyondEnd,
    Earlier,
    Exact,
    GroupPlaces,
    NotReady,
    Place,
    TooOld,
    Unknown,
)

HERE, THERE = TopicPartition("orders", 3), TopicPartition("east.orders", 3)
EXACT = Exact(partition=THERE, offset=40)
UNSURE = Earlier(partition=THERE, offset=41, again_max=None)
WAITS = NotReady(partition=THERE, offset=42, again_max=7)
OLD = TooOld(partition=THERE)
BEYOND = BeyondEnd(partition=THERE, end=17)
NOTHING = Unknown(partition=THERE, reason="it is a secret")


def place(outcome, *, offset=50, basis=Basis.OFFSET):
    return Place(
        partition=HERE,
        offset=offset,
        outcome=outcome,
        basis=basis,
        metadata="note",
        written_ms=1_000 if basis is Basis.CHECKPOINT else None,
    )


def of_group(name, *found, basis=Basis.COMMITTED, silent=""):
    places = tuple(place(each, basis=basis) for each in found)
    return GroupPlaces(group=name, basis=basis, places=places, cluster_error=silent)


def answer(*groups, places=(), silent=""):
    ends = {"flow": "east->west", "origin": "east", "destination": "west"}
    return TranslationResult(
        **ends, at_ms=150_000, groups=groups or None, offsets=tuple(places), source_error=silent
    )


def test_places_as_a_table():
    found = answer(places=[place(each) for each in (EXACT, UNSURE, WAITS, OLD, NOTHING, BEYOND)])
    head = (
        "TOPIC   PARTITION  OFFSET  BASIS     "
        "TRANSLATED-TOPIC  TRANSLATED-OFFSET  RE-READS  OUTCOME"
    )
    row = "orders  3          50      as given  east.orders       "
    assert list(offset_translation_output.format_translation(found)) == [
        head,
        f"{row}40                 0         exact",
        f"{row}41                 unknown   earlier",
        f"{row}42                 7         not ready",
        f"{row}-                  -         too old",
        f"{row}-                  -         unknown: it is a secret",
        f"{row}-                  -         beyond the log end (17)",
    ]


def test_groups_as_a_table_with_what_has_to_be_said_of_them():
    by_checkpoint = of_group("h", UNSURE, basis=Basis.CHECKPOINT, silent="no route")
    found = list(
        offset_translation_output.format_translation(
            answer(of_group("g", EXACT), by_checkpoint, of_group("nobody"))
        )
    )
    told = ["g", "orders", "3", "50", "committed", "east.orders", "40", "0", "exact"]
    assert found[1].split() == told
    assert (
        "  checkpoint, 149 s old  east.orders       41                 unknown   earlier"
        in found[2]
    )
    assert found[3:] == [
        "group h: the offsets are from the group's last checkpoints, because east did not respond: "
        "no route. Later records are re-read; their number is unknown",
        "group nobody has no offsets on east",
    ]


def test_a_time_that_was_looked_for_on_the_other_side_is_told():
    found = answer(places=[place(UNSURE, offset=None, basis=Basis.TIME_ON_DESTINATION)])
    table, note = list(offset_translation_output.format_translation(found))[1:]
    assert table.split()[2] == "-"
    assert note.startswith("orders-3: east did not respond")


def test_of_one_group_as_java_writes_it():
    found = answer(of_group("g", EXACT, WAITS, OLD))
    assert (
        offset_translation_output.translation_to_csv(found)
        == "east.orders,3,40\neast.orders,3,42\n"
    )
    assert list(offset_translation_output.list_omitted_offsets(found)) == [
        "omitted: group g, orders-3: too old"
    ]
    assert (
        offset_translation_output.translation_to_csv(answer(places=[place(EXACT)]))
        == "east.orders,3,40\n"
    )


def test_of_several_groups_as_java_writes_it():
    found = answer(of_group("g", EXACT), of_group('a "b", c', EXACT))
    assert (
        offset_translation_output.translation_to_csv(found)
        == 'g,east.orders,3,40\n"a ""b"", c",east.orders,3,40\n'
    )


def test_as_json():
    found = json.loads(
        json.dumps(
            offset_translation_output.translation_to_json(answer(of_group("g", EXACT, NOTHING)))
        )
    )
    assert (found["version"], found["flow"], found["from"]) == (1, "east->west", "east")
    (group,) = found["groups"]
    assert (group["group"], group["basis"]) == ("g", "committed")
    assert group["offsets"][0] == {
        "topic": "orders",
        "partition": 3,
        "offset": 50,
        "basis": "committed",
        "checkpointed_ms": None,
        "metadata": "note",
        "outcome": "exact",
        "translated_topic": "east.orders",
        "translated_offset": 40,
        "reread_max": 0,
        "log_end": None,
        "reason": "",
    }
    assert group["offsets"][1]["reason"] == "it is a secret"
    (only,) = offset_translation_output.translation_to_json(answer(places=[place(WAITS)]))[
        "offsets"
    ]
    assert (only["outcome"], only["reread_max"]) == ("not-ready", 7)
    (only,) = offset_translation_output.translation_to_json(answer(places=[place(BEYOND)]))[
        "offsets"
    ]
    assert (only["outcome"], only["log_end"]) == ("beyond-the-log-end", 17)
    assert (only["translated_offset"], only["reread_max"]) == (None, None)


def test_whether_it_is_beyond_the_log_end_nobody_knows_without_the_source():
    found = answer(places=[place(WAITS)], silent="no route")
    assert list(offset_translation_output.format_translation(found))[-1] == (
        "orders-3: it is unknown whether offset 50 is beyond the log end, because east did not "
        "respond: no route"
    )


@pytest.mark.parametrize(
    ("found", "whole"),
    [
        (answer(of_group("g", EXACT, UNSURE, WAITS)), True),
        (answer(of_group("g", EXACT, OLD)), False),
        (answer(of_group("g", EXACT), of_group("nobody")), False),
        (answer(places=[place(EXACT)]), True),
        (answer(places=[place(NOTHING)]), False),
        (answer(places=[place(BEYOND)]), False),
    ],
)
def test_is_there_a_place_for_all_that_was_asked(found, whole):
    assert found.is_complete is whole
