"""A running mm2 is given another configuration while records flow: what is the same goes on."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from mm2 import exit_codes
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import eventually, kafka, mirror
from tests.support.kafka import Outgoing, Properties
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

DEADLINE_S = 40.0
SLOW_RECORDS = 250
LIFTED_S = 10.0


class Operator:
    """Somebody who edits the file of a running process and tells it so."""

    def __init__(self, running: Mirror, given: Mapping[str, Any]) -> None:
        self.running = running
        self.given = json.loads(json.dumps(given))
        self._before: dict[int, int] = {}

    def write(self) -> None:
        self.running.settings_path.write_text(json.dumps(self.given, indent=1))

    def reload(self, *arguments: str, code: int = 0) -> str:
        """`mm2 reload` with the file as it is now: what it says."""
        self.write()
        done = mirror.mm2("reload", self.running.settings_path, *arguments)
        assert done.returncode == code, done.stdout + done.stderr + self.running.tail
        return done.stdout + done.stderr

    def await_more(self, topic: str) -> None:
        before = self.running.records(topic=topic)
        self.running.await_records(before + 50, topic=topic)

    def starts_of(self, task: int) -> int:
        """How often a copy of this task of east->west has begun."""
        line = rf"\[east->west\|connector MirrorSourceConnector\|task {task}\] running$"
        return len(re.findall(line, self.running.log, re.MULTILINE)) - self._before.get(task, 0)

    def begin_counting(self) -> None:
        """Of the tasks as they run now."""
        self._before = {task: self.starts_of(task) - 1 for task in range(4)}


@contextmanager
def traffic(properties: Properties, topics: list[str]) -> Iterator[None]:
    """A few records to both partitions of each topic, again and again."""

    def write(stop: threading.Event) -> None:
        number = 0
        while not stop.is_set():
            for topic in topics:
                records = [
                    Outgoing(value=f"{number}-{each}".encode(), partition=each % 2)
                    for each in range(20)
                ]
                kafka.produce(properties, topic, records)
            number += 1
            stop.wait(0.05)

    failures: list[UnexpectedThreadEnd] = []
    owned = ThreadGroup(on_unexpected_end=failures.append)
    owned.start("traffic", write)
    try:
        yield
    finally:
        assert owned.stop_all(20.0) == []
    assert failures == []


def must_be_equal(source: Properties, target: Properties, topic: str) -> None:
    """Every record of the source's topic is on the mirror once, in order."""
    for partition in range(2):
        before = kafka.read_partition(source, topic, partition)

        def same(partition: int = partition, before: Any = before) -> bool:
            after = kafka.read_partition(target, f"east.{topic}", partition)
            return kafka.differences(before, after) == []

        eventually.eventually(same, DEADLINE_S)


@pytest.fixture
def names(east: SandboxCluster, topic: Any) -> list[str]:
    """Three topics of two partitions; the first comes first by name."""
    found = sorted(topic(label) for label in ("a", "b", "c"))
    for name in found:
        kafka.create_topic(east.client_properties(), name, partitions=2)
    return found


def test_only_what_changed_is_started_and_stopped(
    tmp_path: Path, east: SandboxCluster, west: SandboxCluster, names: list[str]
):
    source, target = east.client_properties(), west.client_properties()
    first, second, third = names
    inline = {"engine": "inline"}
    given = mirror.settings(source, target, topics=[first, second], tasks_max=4, spark=inline)
    with Mirror(tmp_path, given) as running:
        operator = Operator(running, given)
        with traffic(source, names):
            change_topics(operator, names)
            ended = count(target, second)
            give_wrong_settings(operator)
            add_and_remove_a_flow(operator)
            change_a_cluster(operator, first)
        assert running.figure("mm2_task_restarts_total") == 0
        for name in (first, third):
            must_be_equal(source, target, name)
        assert count(target, second) == ended
    done = mirror.mm2("reload", running.settings_path)
    assert done.returncode == exit_codes.UNREACHABLE
    assert "no process runs" in done.stderr


def count(target: Properties, topic: str) -> int:
    return sum(map(len, kafka.read_topic(target, f"east.{topic}").values()))


def change_topics(operator: Operator, names: list[str]) -> None:
    """The second topic goes, the third comes, the first is copied on by the same copies."""
    running = operator.running
    first, second, third = names
    running.await_records(50, topic=first)
    running.await_records(50, topic=second)
    eventually.eventually(lambda: all(map(operator.starts_of, range(4))), DEADLINE_S)
    operator.begin_counting()
    assert operator.reload() == "nothing has changed\n"
    operator.given["flows"][0]["topics"] = [first, third]
    said = operator.reload("--dry-run")
    assert f"topics: [{first}, {second}] -> [{first}, {third}]" in said
    assert "east->west changes its replicated topics" in said
    assert operator.starts_of(2) == 1
    assert said.endswith("\ndry run: nothing was applied\n")
    assert operator.reload() == said.replace("dry run: nothing was applied", "applied")
    running.await_records(50, topic=third)
    eventually.eventually(lambda: running.figure("mm2_flow_partitions") == 4, DEADLINE_S)
    operator.await_more(first)
    assert [operator.starts_of(task) for task in range(4)] == [1, 1, 2, 2]
    for name, said in (
        (third, f"{third} -> east.{third}, partitions 0-1: "),
        (f"east.{third}", f"{third} -> east.{third}, partitions 0-1: "),
        (second, f"{second} is not replicated: not matched by topics: {first}, {third}"),
    ):
        await_why(operator, name, f"east->west: {said}")


def await_why(operator: Operator, name: str, said: str) -> None:
    """Partitions are told apart only while they go different ways: opened at first, say."""
    answers: list[str] = []

    def so() -> bool:
        told = mirror.mm2("why", operator.running.settings_path, name)
        assert told.returncode == 0, told.stdout + told.stderr
        answers[:] = [told.stdout]
        return told.stdout.startswith(said)

    eventually.eventually(so, DEADLINE_S, lambda: f"{answers}, not {said}")


def give_wrong_settings(operator: Operator) -> None:
    flow = operator.given["flows"][0]
    flow |= {"tasks.max": "many", "topcis": "x"}
    said = operator.reload(code=2)
    assert "tasks.max: is not allowed" in said
    assert "did you mean 'topics'" in said
    assert "remains in effect" in said
    del flow["topcis"]
    flow["tasks.max"] = 4


def add_and_remove_a_flow(operator: Operator) -> None:
    operator.given["flows"].append({"from": "west", "to": "east", "topics": "no-such"})
    operator.write()
    operator.running.signal(signal.SIGHUP)
    operator.running.await_log("west->east starts")
    del operator.given["flows"][1]
    assert operator.reload() == "west->east stops\napplied\n"


def change_a_cluster(operator: Operator, topic: str) -> None:
    operator.given["clusters"]["west"]["request.timeout.ms"] = "31000"
    said = operator.reload()
    assert "cluster west: request.timeout.ms: not set -> 31000" in said
    assert "east->west restarts" in said
    operator.await_more(topic)


def test_budgets_are_followed_live(
    tmp_path: Path, east: SandboxCluster, west: SandboxCluster, names: list[str]
):
    source, target = east.client_properties(), west.client_properties()
    slow, fast, _ = names
    given = mirror.settings(
        source, target, topics=[slow, fast], tasks_max=2, spark={"engine": "inline"}
    )
    with Mirror(tmp_path, given) as running:
        operator = Operator(running, given)
        kafka.produce(source, slow, [Outgoing(value=b"first")])
        running.await_records(1, topic=slow)
        operator.begin_counting()
        flow = operator.given["flows"][0]
        flow["throttle.topics"] = [f"{re.escape(slow)}=50kB"]
        assert "is reconfigured while running" in operator.reload()
        started_s = mirror.CLOCK.now_s()
        for name, count in ((slow, SLOW_RECORDS), (fast, 60)):
            payload = [
                Outgoing(value=bytes([number]) * 10_000, partition=number % 2)
                for number in range(count)
            ]
            kafka.produce(source, name, payload, compression_type="none", batch_size=12_000)
        running.await_records(60, topic=fast)
        running.await_records(16, topic=slow)
        took_s = mirror.CLOCK.now_s() - started_s
        copied = running.figure("mm2_replicated_bytes_total", topic=slow)
        assert copied <= 50_000 * (took_s + 1) + 4 * 12_000, (copied, took_s)
        left = SLOW_RECORDS - running.records(topic=slow)
        assert left * 10_000 > 2 * LIFTED_S * 50_000, "its budget would let it all through"
        del flow["throttle.topics"]
        flow["throttle"] = "100MB"
        assert "throttle: not set -> 100000000" in operator.reload()
        running.await_records(SLOW_RECORDS + 1, deadline_s=LIFTED_S, topic=slow)
        assert operator.starts_of(0) == operator.starts_of(1) == 1, running.log


@pytest.mark.full
@pytest.mark.timeout(420)
def test_of_two_nodes_the_one_that_does_not_lead_says_which_does(
    tmp_path: Path, own_cluster: Any, names: list[str], east: SandboxCluster
):
    """Each has a file of its own; what the other has to write is not said to be in force."""
    source, target = east.client_properties(), own_cluster("west").client_properties()
    first, second, _ = names
    inline = {"engine": "inline"}
    given = mirror.settings(source, target, topics=[first], tasks_max=2, spark=inline)
    with (
        Mirror(tmp_path, given, name="one") as one,
        Mirror(tmp_path, given, name="two") as two,
    ):
        nodes = [Operator(each, given) for each in (one, two)]
        kafka.produce(source, first, [Outgoing(value=b"x", partition=p) for p in (0, 1)])
        for run in (one, two):
            run.await_figure("mm2_flow_partitions", 1, 2 * DEADLINE_S)
        for each in nodes:
            each.given["flows"][0]["topics"] = [first, second]
        told = [each.reload() for each in nodes]
        led = [re.search(r"the node at (http\S+) leads, and uses", each) for each in told]
        # Who leads is asked first, or last: then its file was written before the other asked.
        assert led[1] is None
        if led[0] is not None:
            assert "the differences are: MirrorSourceConnector: topics" in told[0]
            assert nodes[0].reload() == "nothing has changed\n"
        kafka.produce(source, second, [Outgoing(value=b"x", partition=p) for p in (0, 1)])
        eventually.eventually(lambda: count(target, second) == 2, 2 * DEADLINE_S)
