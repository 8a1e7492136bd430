"""While a flow runs: strangers write to its mirrors, topics are deleted, recreated, cut short.

What cannot be made good stops its partition alone, with what to do; the rest goes on.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import content, eventually, kafka, mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

TOPICS = ("good", "foreign", "mirror-again", "source-again", "deleted")


def delete_topic(properties: kafka.Properties, name: str) -> None:
    client = kafka.admin_client(properties)  # its futures fail when it is collected
    client.delete_topics([name])[name].result(30)
    eventually.eventually(lambda: name not in client.list_topics(timeout=30.0).topics, 30.0)


@pytest.fixture
def pair(own_cluster) -> tuple[dict[str, str], dict[str, str]]:
    return own_cluster("east").client_properties(), own_cluster("west").client_properties()


def test_each_change_stops_its_topic_alone(tmp_path, pair):
    stopped(tmp_path, pair)
    assert_nothing_written(pair[1])


@pytest.mark.full
def test_the_command_that_each_stop_names_leads_on(tmp_path, pair):
    resumed(tmp_path, stopped(tmp_path, pair), pair)


def stopped(tmp_path, pair: tuple[kafka.Properties, ...]) -> dict[str, Any]:
    """Run a flow while its topics change, until each stands still; returns its settings."""
    east, west = pair
    for topic in TOPICS:
        kafka.create_topic(east, topic)
        kafka.produce(east, topic, content.some())
    given = mirror.settings(east, west, tasks_max=2)
    with mirror.Mirror(tmp_path, given) as run:
        for topic in TOPICS:
            run.await_records(20, topic=topic)
        change_topics(east, west)
        for topic, cause in {
            "foreign": "foreign-writes",
            "mirror-again": "recreated",
            "source-again": "recreated",
            "deleted": "refused-by-source",
        }.items():
            run.await_stopped(topic, cause, 180.0)
        for topic, told in {
            "foreign": r"producer id .*which is not this flow's, wrote at offset 21.*mm2 resume",
            "mirror-again": r"mirror topic east\.mirror-again was deleted and created.*mm2 resume",
            "source-again": r"source topic source-again was deleted and created.*mm2 resume",
            "deleted": r"source topic.*(missing|deleted)",
        }.items():
            run.await_log(rf"{topic}-0 stands still: .*{told}", 30.0)
        kafka.produce(east, "good", content.some())
        run.await_records(40, topic="good")
        assert run.stop() == 143
    return given


def change_topics(east: kafka.Properties, west: kafka.Properties) -> None:
    kafka.produce(west, "east.foreign", content.some(3))
    kafka.produce(east, "foreign", content.some(5))
    for properties, topic in ((west, "east.mirror-again"), (east, "source-again")):
        delete_topic(properties, topic)
        kafka.create_topic(properties, topic)
    kafka.produce(east, "mirror-again", content.some(5))
    kafka.produce(east, "source-again", content.some(5))
    delete_topic(east, "deleted")


def assert_nothing_written(west: kafka.Properties) -> None:
    """Of the topics that stopped, nothing was copied to where it does not belong."""
    assert len(kafka.read_partition(west, "east.good")) == 40
    assert kafka.read_partition(west, "east.mirror-again") == []
    assert len(kafka.read_partition(west, "east.source-again")) == 20
    # The expected offset is checked with the first batch after the stranger's: it may stand there.
    assert len(kafka.read_partition(west, "east.foreign")) in {23, 28}


def resumed(tmp_path, given: dict[str, Any], pair: tuple[kafka.Properties, ...]) -> None:
    east, west = pair
    path = tmp_path / "run.yaml"
    for topic, start in (("foreign", "latest"), ("mirror-again", "earliest")):
        place = ("east->west", "--topic", topic, "--new-era", "--from", start)
        done = mirror.mm2("resume", *place, "--config", path)
        assert done.returncode == 0, done.stderr
    kafka.produce(east, "foreign", content.some(7))
    with mirror.Mirror(tmp_path, given, name="resumed") as run:
        run.await_records(25, topic="mirror-again", deadline_s=120.0)
        run.await_stopped("source-again", "recreated", 120.0)
        assert run.stop() == 143
    assert len(kafka.read_partition(west, "east.mirror-again")) == 25
