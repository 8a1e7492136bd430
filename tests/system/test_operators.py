"""What operators type while a flow runs on two nodes, and what `mm2 run` does about failures."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.system import system_clock
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import content, eventually, kafka, mirror, own_classes
from tests.support.kafka import Outgoing, Properties
from tests.support.mirror import Mirror
from tests.support.steady import Steady

pytestmark = [pytest.mark.system, pytest.mark.full, pytest.mark.timeout(420)]

INLINE = {"engine": "inline"}
DEADLINE_S = 90.0
STILL_S = 2.0
LARGE, LARGE_BYTES = 120, 10_000
SLOW = "50kB"
"""A second; the large records would take longer than `LIFTED_S` in all."""
LIFTED_S = 15.0


class Nodes:
    """Every `mm2 run` of one flow; who is asked changes with each command."""

    def __init__(self, *runs: Mirror) -> None:
        self.runs = list(runs)
        self._asked = 0

    def tell(self, command: str, *words: str) -> str:
        """What the command prints."""
        file = self.runs[self._asked % len(self.runs)].settings_path
        self._asked += 1
        done = mirror.mm2(command, mirror.FLOW, *words, "--config", file)
        assert done.returncode == 0, done.stdout + done.stderr + self.tail()
        return done.stdout

    def await_recorded(self, topic: str | None, action: str, detail: str) -> None:
        """Until the incidents topic has this as the last action of its kind."""
        words = ("--kind", "operator-action", "--json", "--config", self.runs[0].settings_path)

        def found() -> list[str]:
            told = json.loads(mirror.mm2("incidents", *words).stdout)["incidents"]
            wanted = (topic, f"operator-action-{action}")
            return [each["detail"] for each in told if (each["topic"], each["id"]) == wanted]

        def recorded() -> bool:
            return any(re.fullmatch(detail, each) for each in found())

        eventually.eventually(recorded, DEADLINE_S, lambda: f"{found()}\n{self.tail()}")

    def records(self, topic: str) -> float:
        return sum(max(0.0, each.records(topic=topic)) for each in self.runs)

    def starts(self) -> int:
        """How often copies of the flow have begun."""
        return sum(len(re.findall(r"task \d+\] running ", each.log)) for each in self.runs)

    def tail(self) -> str:
        return "\n".join(each.tail for each in self.runs)


@pytest.fixture
def target(own_cluster: Callable[..., SandboxCluster]) -> Properties:
    """What is said to a flow stays in its group's topics: no others are to find it there."""
    return own_cluster("west").client_properties()


@pytest.fixture
def names(east: SandboxCluster, topic: Callable[..., str]) -> list[str]:
    source = east.client_properties()
    return [kafka.create_topic(source, topic(label), partitions=2) for label in ("a", "b")]


def settings(source: Properties, target: Properties, names: Sequence[str]) -> dict[str, Any]:
    return mirror.settings(source, target, topics=list(names), tasks_max=2, spark=INLINE)


@contextmanager
def two_nodes(folder: Path, given: Mapping[str, Any]) -> Iterator[Nodes]:
    with (
        Mirror(folder, given, name="one") as one,
        Mirror(folder, given, name="two") as two,
    ):
        for each in (one, two):
            await_figure(each, 2, "mm2_flow_partitions")
        yield Nodes(one, two)


def await_figure(run: Mirror, value: float, metric: str, **labels: str) -> None:
    eventually.eventually(
        lambda: run.figure(metric, **labels) == value, DEADLINE_S, lambda: run.tail
    )


def ends(client: Properties, names: Sequence[str]) -> list[int]:
    return [
        kafka.offsets(client, f"east.{name}", number)[1] for name in names for number in range(2)
    ]


def await_still(client: Properties, names: Sequence[str]) -> None:
    """Until mirrors have stood still for a while."""

    def still() -> bool:
        before = ends(client, names)
        return not system_clock.wait_until(
            lambda: ends(client, names) != before, timeout_s=STILL_S, interval_s=0.5
        )

    eventually.eventually(still, DEADLINE_S, lambda: f"{ends(client, names)}")


def await_more(client: Properties, names: Sequence[str], told: Callable[[], str]) -> None:
    """Until each partition of these mirrors has more than now."""
    before = ends(client, names)
    eventually.eventually(
        lambda: all(map(int.__gt__, ends(client, names), before)), DEADLINE_S, told, interval_s=0.2
    )


def await_equal(source: Properties, target: Properties, names: Sequence[str]) -> None:
    """Nobody writes any more."""

    def equal() -> bool:
        content.assert_mirrored(source, target, *names)
        return True

    eventually.eventually(equal, DEADLINE_S, interval_s=0.5)


def test_what_is_said_to_any_node_is_done_on_all(
    tmp_path: Path, east: SandboxCluster, target: Properties, names: list[str]
) -> None:
    source, (one, other) = east.client_properties(), names
    with (
        Steady(source, dict.fromkeys(names, 2)) as traffic,
        two_nodes(tmp_path, settings(source, target, names)) as nodes,
    ):
        await_more(target, names, nodes.tail)
        begun = nodes.starts()

        told = nodes.tell("pause", "--topic", one)
        assert told.startswith(
            f"east->west, topic {one}: paused until resumed, even across restarts; to resume: "
        )
        await_still(target, [one])
        await_more(target, [other], nodes.tail)
        large = [
            Outgoing(value=b"large" * (LARGE_BYTES // 5), partition=number % 2)
            for number in range(LARGE)
        ]
        kafka.produce(source, one, large, compression_type="none", batch_size=12_000)
        behind = sum(kafka.offsets(source, one, number)[1] for number in range(2))
        told = nodes.tell("throttle", SLOW, "--topic", one)
        assert told.startswith(f"east->west, topic {one}: throttled to ")
        told = nodes.tell("resume", "--topic", one)
        assert told.startswith(f"east->west, topic {one}: resumed; ")
        await_more(target, names, nodes.tail)
        assert sum(ends(target, [one])) < behind - LARGE // 2, "its budget let it all through"
        nodes.tell("throttle", "none", "--topic", one)
        eventually.eventually(lambda: sum(ends(target, [one])) >= behind, LIFTED_S, nodes.tail)
        assert nodes.starts() == begun, "no copy has been begun anew for any of it"

        who = rf"operator \S+ \(uid {os.geteuid()}, pid \d+\)"
        for of, action, words in [
            (one, "pause", f"pause topic {one} of east->west"),
            (one, "throttle", f"throttle topic {one} of east->west: none"),
            (one, "resume", f"resume topic {one} of east->west"),
        ]:
            nodes.await_recorded(of, action, f"{who}: {words}")

        told = nodes.tell("restart", "--topic", other)
        assert told == f"east->west, topic {other}: restarting task 0, task 1\n"
        eventually.eventually(lambda: nodes.starts() == begun + 2, DEADLINE_S, nodes.tail)
        await_more(target, names, nodes.tail)

        nodes.tell("pause")
        await_still(target, names)
        nodes.await_recorded(None, "pause", f"{who}: pause east->west")
        told = mirror.mm2("why", one, "--config", nodes.runs[0].settings_path).stdout
        assert re.search(rf"east->west: \S+Z {who}: pause east->west\n", told), told
        for each in nodes.runs:
            assert each.stop() == 143, each.tail
        given = settings(source, target, names)
        with Mirror(tmp_path, given, name="again") as again:
            nodes = Nodes(again)
            await_figure(again, 1, "mm2_flow_state", state="RUNNING")
            await_still(target, names)
            nodes.tell("resume")
            await_more(target, names, nodes.tail)
            traffic.stop()
            await_equal(source, target, names)


def test_what_fails_is_begun_again_and_given_up_in_the_end(
    tmp_path: Path, east: SandboxCluster, target: Properties, names: list[str]
) -> None:
    source, mood = east.client_properties(), tmp_path / "bad mood"
    given = settings(source, target, names)
    given["worker"] = {"task.restart.max": 4}
    given["flows"][0] |= {
        "replication.policy.class": f"{own_classes.NAME}:Moody",
        "moody.file": str(mood),
    }
    with (
        Steady(source, dict.fromkeys(names, 2)) as traffic,
        Mirror(tmp_path, given) as run,
    ):
        nodes = Nodes(run)
        run.await_records(1, topic=names[1])
        await_more(target, names, nodes.tail)
        mood.touch()
        nodes.tell("restart", "--topic", names[0])
        for number in range(2):
            failed = rf"restarting MirrorSourceConnector-{number}: .*in a bad mood"
            run.await_log(rf"{failed}(?s:.*){failed}", DEADLINE_S)
        mood.unlink()
        await_more(target, names, nodes.tail)

        mood.touch()
        nodes.tell("restart", "--topic", names[0])
        assert run.wait(DEADLINE_S) == 1
        assert run.log.rstrip().endswith("in a bad mood"), run.tail
        mood.unlink()
        traffic.stop()
    mirror.catch_up(tmp_path, given)
    await_equal(source, target, names)
