"""While a flow runs: strangers write to its mirrors, topics are deleted, recreated, cut short.

What cannot be made good halts its partition alone, with its remedy; the rest is replicated. Whoever
deletes a topic reads that its mirror is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mm2 import suggested_commands
from mm2.formats.incident_records import IncidentKind
from mm2.sandbox import replication_proof
from tests.support import content, eventually, kafka, mirror, obeying, operations
from tests.support.kafka import Outgoing, Properties, Record
from tests.support.mirror import Mirror
from tests.support.steady import Steady

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

STRANGER = b"not from the source"
TOPICS = ("good", "foreign", "mirror-again", "source-again", "deleted")


@pytest.fixture
def pair(own_cluster) -> tuple[dict[str, str], dict[str, str]]:
    return own_cluster("east").client_properties(), own_cluster("west").client_properties()


def test_each_change_halts_its_topic_alone_until_its_remedy_is_typed(tmp_path, pair):
    """While the flow runs, which is never stopped for it."""
    with_changes(tmp_path, pair, then=lambda told: typed(tmp_path, told, pair))


@pytest.mark.full
def test_remedies_work_when_the_flow_does_not_run(tmp_path, pair):
    run, given, told = with_changes(tmp_path, pair)
    assert_seen_from_outside(run)
    kept = kept_of(pair[1], told)
    for topic in again(told):
        assert "no process runs east->west" in obeying.obey(told[topic], folder=tmp_path)
    kafka.produce(pair[0], "foreign", content.some(7))
    with Mirror(tmp_path, given, name="resumed") as resumed:
        assert_replicating(resumed, told, kept, pair)
        assert resumed.stop() == 143


Told = Mapping[str, str]
"""The remedy of each topic that halted."""


def with_changes(
    tmp_path, pair: tuple[Properties, ...], *, then: Callable[[Told], None] | None = None
) -> tuple[Mirror, dict[str, Any], Told]:
    """Run a flow while its topics change, until each is halted, and go on with `then`.

    Returns the run, its settings, and the remedies.
    """
    east, west = pair
    for topic in TOPICS:
        kafka.create_topic(east, topic)
    given = mirror.settings(
        east, west, tasks_max=2, refresh_topics_interval_seconds=5, spark={"engine": "inline"}
    )
    with (
        Mirror(tmp_path, given) as run,
        Steady(east, dict.fromkeys(TOPICS, 1)) as traffic,
    ):
        for topic in TOPICS:
            run.await_records(20, topic=topic)
        before = change_topics(east, west, traffic)
        told = assert_told(run)
        traffic.go_on()
        traffic.stop()
        eventually.eventually(lambda: lost(east, west, "good") == 0, 60.0, "all of it is copied")
        assert_nothing_written(pair, before)
        if then is not None:
            then(told)
            assert run.stopped() == set()
        assert run.stop() == 143
    return run, given, told


def typed(tmp_path, told: Told, pair: tuple[Properties, ...]) -> None:
    east, _ = pair
    kept = kept_of(pair[1], told)
    for topic in again(told):
        said = obeying.obey(told[topic], folder=tmp_path)
        assert f"{topic}-0: replicating again from source offset " in said
    kafka.produce(east, "foreign", content.some(7))
    assert_replicating(None, told, kept, pair)


def again(told: Told) -> list[str]:
    found = [topic for topic in TOPICS if "mm2 topic reset" in told.get(topic, "")]
    assert sorted(found) == ["foreign", "mirror-again", "source-again"]
    return found


def kept_of(west: Properties, told: Told) -> dict[str, list[Record]]:
    return {topic: kafka.read_partition(west, f"east.{topic}") for topic in again(told)}


def change_topics(east: Properties, west: Properties, traffic: Steady) -> list[Record]:
    """All are written to meanwhile, but for those that are away for a moment.

    Returns what the topic held that is another one now.
    """
    kafka.produce(west, "east.foreign", [Outgoing(value=STRANGER)] * 3)
    operations.recreate(west, "east.mirror-again")
    for topic in ("source-again", "deleted"):
        traffic.leave(topic)
    before = kafka.read_partition(east, "source-again")
    for topic in ("source-again", "deleted"):
        operations.delete(east, topic)
    kafka.create_topic(east, "source-again")
    traffic.follow("source-again", 1)
    return before


def assert_told(run: Mirror) -> Told:
    commands_of = {}
    for topic, cause in {
        "foreign": "foreign-writes",
        "mirror-again": "recreated",
        "source-again": "recreated",
    }.items():
        run.await_stopped(topic, cause, 180.0)
    for topic, told in {
        "foreign": r"foreign records at offset \d+. Their producer id .*mm2 topic reset",
        "mirror-again": r"mirror topic east\.mirror-again was deleted and created.*mm2 topic reset",
        "source-again": r"source topic source-again was deleted and created.*mm2 topic reset",
    }.items():
        line = run.await_log(rf"{topic}-0 is halted: .*{told}.*", 30.0)
        commands_of[topic] = suggested_commands.extract_remedy_from_message(line[0])
    run.await_log("topic deleted is no longer listed by the source", 30.0)
    assert all(commands_of.values()), commands_of
    return commands_of


def lost(east: Properties, west: Properties, topic: str) -> int:
    """How many records the mirror lacks at its end; of what it holds, nothing may differ."""
    source = kafka.read_partition(east, topic)
    return behind(source, kafka.read_partition(west, f"east.{topic}"))


def behind(source: list[Record], mirrored: list[Record]) -> int:
    assert kafka.differences(source[: len(mirrored)], mirrored) == []
    return len(source) - len(mirrored)


def assert_nothing_written(pair: tuple[Properties, ...], before: list[Record]) -> None:
    """Of the topics that stopped, nothing was copied to where it does not belong."""
    east, west = pair
    assert kafka.read_partition(west, "east.mirror-again") == []
    assert behind(before, kafka.read_partition(west, "east.source-again")) >= 0
    found = kafka.read_partition(west, "east.foreign")
    ours = [each for each in found if each.value != STRANGER]
    assert len(found) - len(ours) == 3
    assert behind(kafka.read_partition(east, "foreign"), ours) > 0


def assert_seen_from_outside(run: Mirror) -> None:
    """Though nobody runs the flow any more."""
    done = mirror.mm2("status", run.settings_path)
    assert done.returncode == 1, done.stdout + done.stderr
    for line in (
        "mirror-again-0: its mirror was made anew",
        "source-again-0: the topic was made anew",
    ):
        assert f"warning: {line}" in done.stdout, done.stdout


def assert_replicating(
    run: Mirror | None,
    told: Told,
    kept: Mapping[str, list[Record]],
    pair: tuple[Properties, ...],
) -> None:
    """From where the remedies say, behind what the mirrors hold."""
    east, west = pair
    for topic, before in kept.items():
        offset = re.search(r"--from offset:(\d+)", told[topic])
        content.assert_goes_on(
            east, west, topic, start=int(offset[1]) if offset else 0, kept=before
        )
    assert run is None or run.stopped() == set()
    stated = {(each.topic, each.kind) for each in replication_proof.read_incidents(west, "east")}
    assert stated == {(topic, IncidentKind.NEW_ERA_REQUESTED) for topic in kept}
