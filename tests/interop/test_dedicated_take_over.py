"""One `mm2.properties`, and MirrorMaker in its dedicated mode: Java's nodes are replaced by ours,
and ours by Java's, all at once or one after the other, while records keep coming."""

from __future__ import annotations

import contextlib
import enum
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from connect_runtime.system import processes
from mm2.sandbox import artefacts, comparison, jvm, ports, proof, properties
from mm2.sandbox.traffic import trickle
from tests.support import eventually, kafka
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from mm2.sandbox import cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

WAIT_S = 180.0
STOP_S = 60.0
PARTITIONS = 4
PER_SECOND = 300.0
FLUSH_S = 2.0


class Kind(enum.Enum):
    """Whose node it is."""

    JAVA = "java"
    JAVA_3_9 = "java-3.9"
    OURS = "ours"

    def command(self, path: Path) -> list[str]:
        if self is Kind.OURS:
            program = [sys.executable, "-m", "mm2.app.cli.main", "run"]
            return [*program, str(path), "--no-table", "--metrics-port", "0"]
        release = artefacts.KAFKA if self is Kind.JAVA else artefacts.CONNECT_3_9
        main = "org.apache.kafka.connect.mirror.MirrorMaker"
        return jvm.command(main, str(path), jars=artefacts.jars(release))


class Node:
    """One process; `start` again keeps its file and its log."""

    def __init__(self, kind: Kind, settings: dict[str, str], folder: Path, name: str) -> None:
        self._kind = kind
        self._port = ports.reserve()
        self._path = folder / f"{name}.properties"
        own = {"listeners": f"http://127.0.0.1:{self._port.port}"}
        self._path.write_text(properties.render(settings | own))
        self._log = folder / f"{name}.log"
        with self._log.open("ab") as output:
            self._child = processes.start(kind.command(self._path), output=output, cwd=ROOT)

    def stop(self) -> None:
        """In order."""
        self._child.signal(signal.SIGTERM)
        status = self._child.wait(STOP_S)
        assert status in (0, 143), f"{status}: {self.log()}"

    def kill(self) -> None:
        self._child.kill()

    def close(self) -> None:
        self._child.kill()
        self._port.release()

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]


class Mirroring:
    """Traffic on one topic, and the nodes that mirror it."""

    def __init__(
        self, folder: Path, west: cluster.Cluster, east: cluster.Cluster, topic: str
    ) -> None:
        self.source, self.target = dict(west.client_properties()), dict(east.client_properties())
        self.topic = topic
        self.flow = (f"w-{topic}", f"e-{topic}")
        self.mirror = f"{self.flow[0]}.{topic}"
        self.nodes: dict[str, Node] = {}
        self._folder = folder
        self._open = contextlib.ExitStack()
        kafka.create_topic(self.source, topic, partitions=PARTITIONS)
        self.traffic = trickle.Trickle(
            self.source, topic, partitions=PARTITIONS, per_second=PER_SECOND
        )

    @property
    def settings(self) -> dict[str, str]:
        source, target = self.flow
        given = {"clusters": f"{source},{target}"}
        for alias, client in ((source, self.source), (target, self.target)):
            given |= {f"{alias}.{key}": value for key, value in client.items()}
            for kind in ("config", "offset", "status"):
                given[f"{alias}.{kind}.storage.replication.factor"] = "1"
        return given | {
            f"{source}->{target}.enabled": "true",
            f"{source}->{target}.topics": self.topic,
            "emit.heartbeats.enabled": "false",
            "tasks.max": "2",
            "replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "sync.topic.acls.enabled": "false",
            "dedicated.mode.enable.internal.rest": "true",
            f"{target}.plugin.discovery": "service_load",
            f"{target}.offset.flush.interval.ms": str(round(FLUSH_S * 1000)),
            f"{target}.scheduled.rebalance.max.delay.ms": "0",
            "mm2.spark.engine": "inline",
        }

    def start(self, name: str, kind: Kind) -> Node:
        self.nodes[name] = Node(kind, self.settings, self._folder, name)
        self._open.callback(self.nodes[name].close)
        return self.nodes[name]

    def moves(self) -> None:
        """Whoever does it now mirrors, in every partition, what comes in from now on."""
        wanted = [end + 50 for end in self._ends(self.source, self.topic)]

        def there() -> bool:
            found = self._ends(self.target, self.mirror)
            return len(found) == PARTITIONS and all(map(int.__ge__, found, wanted))

        eventually.eventually(there, WAIT_S, self.logs, interval_s=0.3)

    def _ends(self, client: dict[str, str], topic: str) -> list[int]:
        if topic not in kafka.topics(client):
            return []
        return [kafka.offsets(client, topic, each)[1] for each in range(PARTITIONS)]

    def complete(self) -> comparison.Comparison:
        """What the mirror has, as soon as nothing that was sent is missing."""
        self.traffic.stop()

        def all_there() -> comparison.Comparison | None:
            found = proof.compare(self.source, self.target, {self.topic: self.mirror})
            return found if found.count(comparison.Kind.MISSING) == 0 else None

        found = eventually.eventually(all_there, WAIT_S, self.logs, interval_s=1.0)
        assert found is not None
        return found

    def logs(self) -> str:
        return "\n".join(f"== {name}\n{each.log()}" for name, each in self.nodes.items())

    def __enter__(self) -> Mirroring:
        self.traffic.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.traffic.stop()
        self._open.close()


@pytest.fixture
def mirroring(
    tmp_path: Path, west: cluster.Cluster, east: cluster.Cluster, topic: Callable[..., str]
) -> Iterator[Mirroring]:
    with Mirroring(tmp_path, west, east, topic()[:60]) as made:
        yield made


JAVAS = [pytest.param(Kind.JAVA, id="4.3"), pytest.param(Kind.JAVA_3_9, id="3.9")]


@pytest.mark.full
@pytest.mark.parametrize("java", JAVAS)
def test_all_at_once_there_and_back(mirroring: Mirroring, java: Kind) -> None:
    first = mirroring.start("java", java)
    mirroring.moves()
    first.stop()
    ours = mirroring.start("ours", Kind.OURS)
    mirroring.moves()
    ours.stop()
    mirroring.start("back", java)
    mirroring.moves()
    found = mirroring.complete()
    assert found.equal, str(found)


@pytest.mark.full
@pytest.mark.parametrize("java", JAVAS)
def test_java_is_killed_and_we_go_on_without_a_double(mirroring: Mirroring, java: Kind) -> None:
    first = mirroring.start("java", java)
    mirroring.moves()
    mirroring.moves()
    first.kill()
    mirroring.start("ours", Kind.OURS)
    mirroring.moves()
    found = mirroring.complete()
    assert found.equal, str(found)


@pytest.mark.full
def test_one_after_the_other_there_and_back(mirroring: Mirroring) -> None:
    """While Java shares the group its guarantee holds: what was not committed is done again."""
    for name in ("java-1", "java-2"):
        mirroring.start(name, Kind.JAVA)
    mirroring.moves()
    for gone, comes, kind in (
        ("java-1", "ours-1", Kind.OURS),
        ("java-2", "ours-2", Kind.OURS),
        ("ours-1", "back-1", Kind.JAVA),
        ("ours-2", "back-2", Kind.JAVA),
    ):
        mirroring.nodes[gone].stop()
        mirroring.moves()
        mirroring.start(comes, kind)
        mirroring.moves()
    for each in ("back-1", "back-2"):
        mirroring.nodes[each].stop()
    mirroring.start("last", Kind.OURS)
    mirroring.moves()
    found = mirroring.complete()
    faults = {kind: found.count(kind) for kind in comparison.Kind if found.count(kind)}
    assert faults.keys() <= {comparison.Kind.DUPLICATED}, str(found)
    assert faults.get(comparison.Kind.DUPLICATED, 0) <= 4 * PER_SECOND * FLUSH_S, str(found)
