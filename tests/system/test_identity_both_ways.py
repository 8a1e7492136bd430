"""Two clusters that mirror each other under one name, with producers of their own on both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import both_ways, kafka, mirror
from tests.support.both_ways import Locals
from tests.support.kafka import Properties
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

PARTITIONS = 3
KEEPS_NAMES = {"replication.policy.class": "IdentityReplicationPolicy"}
TEN_MINUTES_S = 600.0
START_S = 240.0
RUN_S = 90.0
"""After so long it is killed, or stopped, and another one begins."""


def settings(sides: dict[str, Properties], topic: str, **more: Any) -> dict[str, Any]:
    """Flows both ways; `more` as for `mirror.settings`."""
    given = mirror.settings(sides["east"], sides["west"], topics=[topic], **more)
    there = given["flows"][0] | KEEPS_NAMES
    return given | {"flows": [there, there | {"from": "west", "to": "east"}]}


@pytest.fixture
def sides(east, west) -> dict[str, Properties]:
    return {"east": east.client_properties(), "west": west.client_properties()}


@pytest.fixture
def name(sides, topic) -> str:
    made: str = topic()
    for properties in sides.values():
        kafka.create_topic(properties, made, partitions=PARTITIONS)
    return made


def begun(sides: dict[str, Properties], name: str) -> list[Locals]:
    return [
        Locals(properties, name, home=home, partitions=PARTITIONS)
        for home, properties in sides.items()
    ]


def await_equal(sides: dict[str, Properties], name: str, run: Mirror) -> None:
    both_ways.await_equal(sides, name, PARTITIONS, told=lambda: run.tail)


def test_each_record_is_once_on_each_side_whoever_is_killed(tmp_path: Path, sides, name):
    given = settings(sides, name, spark={"engine": "inline"})
    here, there = begun(sides, name)
    with here, there:
        here.go_on(12)  # of every kind some stand there before anything is mirrored
        there.go_on(1)
        with Mirror(tmp_path, given) as run:
            run.await_records(20, flow="east->west")
            run.await_records(20, flow="west->east")
            here.go_on(10)
            run.kill()
        with Mirror(tmp_path, given, name="again") as run:
            run.await_records(10, flow="west->east")
            here.go_on(10)
            there.go_on(10)
            here.stop()
            there.stop()
            await_equal(sides, name, run)
            assert run.stopped() == set()


@pytest.mark.full
def test_the_way_back_may_come_later(tmp_path: Path, sides, name):
    """Who copies one way asks of every producer, and learns of the other flow when there is one."""
    both = settings(sides, name, spark={"engine": "inline"})
    one_way = both | {"flows": both["flows"][:1]}
    here, there = begun(sides, name)
    with here, there, Mirror(tmp_path, one_way) as first:
        first.await_records(20)
        back = both | {"flows": both["flows"][1:]}
        with Mirror(tmp_path, back, name="back") as second:
            second.await_records(20)
            here.go_on(5)
            here.stop()
            there.stop()
            await_equal(sides, name, first)


@pytest.mark.full
@pytest.mark.timeout(TEN_MINUTES_S + 900)
def test_ten_minutes_both_ways_on_spark(tmp_path: Path, sides, name):
    given = settings(sides, name)
    here, there = begun(sides, name)
    end_s = mirror.CLOCK.now_s() + TEN_MINUTES_S
    with here, there:
        number = 0
        while mirror.CLOCK.now_s() < end_s:
            number += 1
            with Mirror(tmp_path, given, name=f"run-{number}") as run:
                run.await_records(50, START_S, flow="east->west")
                until_s = mirror.CLOCK.now_s() + RUN_S
                while mirror.CLOCK.now_s() < until_s:
                    here.go_on(10)
                if number % 2:
                    run.kill()
                else:
                    assert run.stop() == 143
        with Mirror(tmp_path, given, name="last") as run:
            run.await_records(1, START_S, flow="east->west")
            here.stop()
            there.stop()
            await_equal(sides, name, run)
