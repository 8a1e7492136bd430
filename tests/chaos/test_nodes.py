"""Several `mm2 run` of one file share a flow: nodes come, are killed, freeze, thaw, under traffic.

Only what must move moves, and every record is there once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mm2.sandbox import replication_proof
from mm2.sandbox.traffic.latency_probe import TrickleProducer
from tests.support import eventually, kafka, task_lives
from tests.support.mirror import Mirror
from tests.support.task_lives import Said

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

WAIT_S = 120.0
PARTITIONS = 8
TASKS = 4
SOURCE_TASKS = tuple(f"task-MirrorSourceConnector-{number}" for number in range(TASKS))


class Nodes:
    """Nodes by name, each with the same file; who runs what is read from the status topic."""

    def __init__(
        self, folder: Path, west: SandboxCluster, east: SandboxCluster, name: str, engine: str
    ) -> None:
        self.source, self.target = (
            dict(west.client_properties()),
            dict(east.client_properties()),
        )
        self.topic, self.alias = name, f"w-{name}"
        self._folder = folder
        kafka.create_topic(self.source, name, partitions=PARTITIONS)
        self._given = {
            "clusters": {self.alias: self.source, f"e-{name}": self.target},
            "flows": [
                {
                    "from": self.alias,
                    "to": f"e-{name}",
                    "topics": [name],
                    "tasks.max": TASKS,
                    "replication.factor": 1,
                }
            ],
            "spark": {"engine": engine},
        }
        self.running: dict[str, Mirror] = {}
        self.addresses: dict[str, str] = {}
        self.traffic = TrickleProducer(self.source, name, partitions=PARTITIONS, per_second=300.0)
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Nodes:
        return self

    def __exit__(self, *_: object) -> None:
        self.traffic.stop()
        self._open.close()

    def start(self, name: str) -> None:
        """One more, and wait until it has its part of the work."""
        known = set(self.placed().values())
        self.running[name] = self._open.enter_context(Mirror(self._folder, self._given, name=name))
        found = eventually.eventually(
            lambda: set(self.placed().values()) - known, WAIT_S, self.logs, interval_s=0.3
        )
        (self.addresses[name],) = found
        self.settled()
        log = self.running[name].log
        if known and "Spark is running" in log:  # until then others have the work
            assert log.index("Spark is running") < log.index(" is RUNNING")

    def settled(self) -> None:
        """Nodes that are there run every task, as evenly as can be, and go on doing so."""

        def even() -> bool:
            placed = self.placed()
            loads = [
                sum(placed.get(task) == self.addresses[name] for task in SOURCE_TASKS)
                for name in self.addresses
            ]
            return sum(loads) == TASKS and max(loads) - min(loads) <= 1

        eventually.eventually(even, WAIT_S, self.logs, interval_s=0.3)
        self.moves()
        assert even(), self.placed()

    def moves(self) -> None:
        """What comes in now is mirrored."""
        sent = self.traffic.sent + 300
        eventually.eventually(
            lambda: self.traffic.sent >= sent and self._mirrored() >= sent,
            WAIT_S,
            self.logs,
            interval_s=0.3,
        )

    def _mirrored(self) -> int:
        name = f"{self.alias}.{self.topic}"
        if name not in kafka.topics(self.target):
            return 0
        return sum(kafka.offsets(self.target, name, each)[1] for each in range(PARTITIONS))

    def said(self) -> list[Said]:
        name = f"mm2-status.{self.alias}.internal"
        return task_lives.read(self.target, name) if name in kafka.topics(self.target) else []

    def placed(self) -> dict[str, str]:
        """Who runs each connector and task, as was said last."""
        found: dict[str, str] = {}
        for each in self.said():
            if each.state == "RUNNING" and each.worker_id is not None:
                found[each.item] = each.worker_id
            elif found.get(each.item) == each.worker_id:
                found.pop(each.item, None)
        return found

    def told(self) -> dict[str, int]:
        """How much was said of each: of what goes on undisturbed nothing is."""
        counts: dict[str, int] = {}
        for each in self.said():
            counts[each.item] = counts.get(each.item, 0) + 1
        return counts

    @contextlib.contextmanager
    def only(self, *, leave: str | None = None, reach: str | None = None) -> Iterator[None]:
        """Until the end, what moves leaves that node, or reaches it; of others nothing is said."""
        before, said = self.placed(), self.told()
        yield
        after = self.placed()
        moved = {item for item in before if after.get(item) != before[item]}
        assert moved, "nothing has moved"
        for item in moved:
            if leave is not None:
                assert before[item] == self.addresses.get(leave, leave), (item, before, after)
            if reach is not None:
                assert after[item] == self.addresses[reach], (item, before, after)
        touched = {item for item, count in self.told().items() if said.get(item) != count}
        assert touched & before.keys() <= moved, (touched - moved, self.logs())

    def logs(self) -> str:
        return "\n".join(f"== {name}\n{each.tail}" for name, each in self.running.items())


@pytest.fixture
def nodes(
    tmp_path: Path,
    west: SandboxCluster,
    east: SandboxCluster,
    topic: Callable[..., str],
    request: pytest.FixtureRequest,
) -> Iterator[Nodes]:
    with Nodes(tmp_path, west, east, topic()[:60], request.param) as made:
        yield made


def judged(nodes: Nodes) -> None:
    nodes.traffic.stop()
    mirrors: Mapping[str, str] = {nodes.topic: f"{nodes.alias}.{nodes.topic}"}

    def equal() -> bool:
        found = replication_proof.compare_topics(nodes.source, nodes.target, mirrors)
        assert found.is_equal, str(found)
        return True

    eventually.eventually(equal, WAIT_S, nodes.logs, interval_s=1.0)


@pytest.mark.parametrize("nodes", ["inline"], indirect=True)
def test_a_node_comes_and_one_is_killed(nodes: Nodes) -> None:
    nodes.traffic.start()
    nodes.start("first")
    with nodes.only(reach="second"):
        nodes.start("second")
    first = nodes.addresses.pop("first")
    with nodes.only(leave=first):
        nodes.running["first"].kill()
        nodes.settled()
    judged(nodes)


@pytest.mark.full
@pytest.mark.parametrize("nodes", ["inline", "spark"], indirect=True)
def test_three_nodes_one_of_which_freezes(nodes: Nodes) -> None:
    nodes.traffic.start()
    nodes.start("first")
    with nodes.only(reach="second"):
        nodes.start("second")
    with nodes.only(reach="third"):
        nodes.start("third")
    killed = nodes.addresses.pop("second")
    with nodes.only(leave=killed):
        nodes.running["second"].kill()
        nodes.settled()
    frozen = nodes.addresses.pop("first")
    with nodes.only(leave=frozen):
        nodes.running["first"].freeze()
        eventually.eventually(
            lambda: frozen not in nodes.placed().values(), WAIT_S, nodes.logs, interval_s=0.5
        )
        nodes.settled()
    nodes.addresses["first"] = frozen
    with nodes.only(leave="third", reach="first"):
        nodes.running["first"].thaw()
        nodes.settled()
    judged(nodes)
