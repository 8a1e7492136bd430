"""Nodes of MirrorMaker in its dedicated mode, Java's and ours, that share one `mm2.properties`; and
what the topics of their group say of them."""

from __future__ import annotations

import contextlib
import enum
import json
import re
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connect_runtime.base.ids import TopicPartition
from connect_runtime.system import child_processes
from mm2.sandbox import (
    broker_settings,
    java_class_archive,
    java_server_process,
    kafka_jars,
    port_reservation,
    replication_proof,
)
from mm2.sandbox.log_comparison import DifferenceKind, TopicsComparison
from mm2.sandbox.traffic.latency_probe import TrickleProducer
from tests.support import eventually, kafka, who_wrote
from tests.support.kafka import Outgoing
from tests.support.processes import ROOT
from tests.support.who_wrote import Doubled

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


WAIT_S = 240.0
STOP_S = 60.0
PARTITIONS = 4
TASKS = 2
PER_SECOND = 300.0
FLUSH_S = 2.0
DELIVERY_S = 40.0
"""So long ours wait for what a worker of Java may still send that did not end in order."""
SOURCE = "MirrorSourceConnector"
_JOINED = re.compile(
    r"got assignment: .*leaderUrl='http://(127\.0\.0\.1:\d+)/.*"
    r"connectorIds=\[([^]]*)\], taskIds=\[([^]]*)\]"
)


class Kind(enum.Enum):
    """Whose node it is."""

    JAVA = "java"
    JAVA_3_9 = "java-3.9"
    OURS = "ours"

    def command(self, path: Path) -> list[str]:
        if self is Kind.OURS:
            program = [sys.executable, "-m", "mm2.cli.main", "run"]
            return [*program, str(path), "--no-table", "--metrics-port", "0"]
        release = kafka_jars.KAFKA_JARS if self is Kind.JAVA else kafka_jars.CONNECT_3_9_JARS
        jars = kafka_jars.ensure_jars(release)
        flags = (
            *java_server_process.TEST_JVM_FLAGS,
            *java_class_archive.ensure_class_archive(jars),
        )
        main = "org.apache.kafka.connect.mirror.MirrorMaker"
        return java_server_process.make_java_command(main, str(path), jars=jars, flags=flags)


class Node:
    """One process."""

    def __init__(self, kind: Kind, settings: dict[str, str], folder: Path, name: str) -> None:
        self.kind = kind
        self._port = port_reservation.reserve_port()
        self.address = f"127.0.0.1:{self._port.port}"
        path = folder / f"{name}.properties"
        path.write_text(
            broker_settings.render_properties(settings | {"listeners": f"http://{self.address}"})
        )
        self._log = folder / f"{name}.log"
        with self._log.open("ab") as output:
            self._child = child_processes.start_process(kind.command(path), output=output, cwd=ROOT)

    def stop(self) -> None:
        """In order."""
        self._child.send_signal(signal.SIGTERM)
        status = self._child.wait(STOP_S)
        assert status in (0, 143), f"{status}: {self.log()}"

    def kill(self) -> None:
        self._child.kill()

    def freeze(self) -> None:
        self._child.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._child.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self._child.kill()
        self._port.release()

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]

    def joined(self) -> tuple[str, set[str]]:
        """What a node of Java's heard last of its group: the leader's address, and what it runs."""
        found = _JOINED.findall(self._log.read_text(errors="replace"))
        if not found:
            return "", set()
        leader, *given = found[-1]
        return leader, {each for items in given for each in items.split(", ")}

    def runs(self, owners: Mapping[str, str]) -> set[str]:
        """Those of the connectors and tasks that run here. Workers of 3.9 are all called alike."""
        if self.kind is Kind.JAVA_3_9:
            return self.joined()[1] & {item for item, who in owners.items() if "/" not in who}
        return {item for item, who in owners.items() if who.partition("/")[0] == self.address}


@dataclass(frozen=True)
class Group:
    """What the group of a flow keeps in topics, read with an ordinary client."""

    client: Mapping[str, str]
    source: str

    def owners(self) -> dict[str, str]:
        """Who runs the connector (by its name) and its tasks (`<connector>-<number>`)."""
        found: dict[str, str] = {}
        for key, value in self._newest("status").items():
            item = re.sub("^status-(connector|task)-", "", key)
            if item.startswith(SOURCE) and value and value["state"] == "RUNNING":
                found[item] = value["worker_id"]
        return found

    def shares(self) -> dict[str, set[TopicPartition]]:
        """The partitions of each task, whoever wrote its configuration."""
        newest = self._newest("configs")
        tasks = (newest.get(f"commit-{SOURCE}") or {"tasks": 0})["tasks"]
        found = {}
        for number in range(tasks):
            value = newest[f"task-{SOURCE}-{number}"]
            assert value is not None
            names = value["properties"]["task.assigned.partitions"].split(",")
            parts = (each.rpartition("-") for each in names)
            found[f"{SOURCE}-{number}"] = {
                TopicPartition(topic, int(each)) for topic, _, each in parts
            }
        return found

    def copied(self) -> dict[TopicPartition, int]:
        """The next source offset of each partition, as it is stored."""
        found = {}
        for key, value in self._newest("offsets").items():
            connector, name = json.loads(key)
            if connector == SOURCE and value is not None:
                place = TopicPartition(name["topic"], name["partition"])
                found[place] = value["offset"] + 1
        return found

    def _newest(self, kind: str) -> dict[str, dict[str, Any] | None]:
        topic = f"mm2-{kind}.{self.source}.internal"
        if topic not in kafka.topics(self.client):
            return {}
        return {
            (each.key or b"").decode(): None if each.value is None else json.loads(each.value)
            for read in kafka.read_topic(self.client, topic).values()
            for each in read
        }


class Mirroring:
    """Traffic on one topic, more topics as they come, and the nodes that mirror them."""

    def __init__(
        self, folder: Path, west: SandboxCluster, east: SandboxCluster, topic: str
    ) -> None:
        self.source, self.target = (
            dict(west.client_properties()),
            dict(east.client_properties()),
        )
        self.topics = [topic]
        self.flow = (f"w-{topic}", f"e-{topic}")
        self.group = Group(self.target, self.flow[0])
        self.nodes: dict[str, Node] = {}
        self.living: list[str] = []
        self._folder = folder
        self._open = contextlib.ExitStack()
        kafka.create_topic(self.source, topic, partitions=PARTITIONS)
        self.traffic = TrickleProducer(
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
            f"{source}->{target}.topics": f"{self.topics[0]}.*",
            "refresh.topics.interval.seconds": "1",
            "emit.heartbeats.enabled": "false",
            "tasks.max": str(TASKS),
            "replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "sync.topic.acls.enabled": "false",
            "dedicated.mode.enable.internal.rest": "true",
            f"{target}.plugin.discovery": "service_load",
            f"{target}.offset.flush.interval.ms": str(round(FLUSH_S * 1000)),
            f"{target}.producer.delivery.timeout.ms": str(round(DELIVERY_S * 1000)),
            f"{target}.scheduled.rebalance.max.delay.ms": "0",
            "mm2.spark.engine": "inline",
        }

    # Nodes

    def start(self, name: str, kind: Kind) -> Node:
        self.nodes[name] = Node(kind, self.settings, self._folder, name)
        self._open.callback(self.nodes[name].close)
        self.living.append(name)
        return self.nodes[name]

    def stop(self, name: str) -> None:
        """In order."""
        self.living.remove(name)
        self.nodes[name].stop()

    def kill(self, name: str) -> int:
        """How many records of its tasks stood in their mirrors, at most, and were not stored as
        copied: whoever trusts what is stored copies them again."""
        mine = self.nodes[name].runs(self.group.owners())
        places = {
            place for task, share in self.group.shares().items() if task in mine for place in share
        }
        stored = self.group.copied()
        self.living.remove(name)
        self.nodes[name].kill()
        ends = {each: self._ends(self.target, self.mirror(each)) for each in self.topics}
        sent = {each: self._ends(self.source, each) for each in self.topics}
        return sum(
            self._behind(
                place,
                range(stored.get(place, 0), sent[place.topic][place.partition]),
                ends[place.topic][place.partition],
            )
            for place in places
        )

    def shared(self) -> dict[str, Kind]:
        """Once the living nodes run all tasks, and each at least one: whose runs what, by the name
        of the connector or task."""
        wanted = {f"{SOURCE}-{number}" for number in range(TASKS)}

        def so() -> dict[str, Kind] | None:
            owners = self.group.owners()
            runs = {name: self.nodes[name].runs(owners) for name in self.living}
            everywhere = all(each & wanted for each in runs.values())
            found = {item: self.nodes[name].kind for name, each in runs.items() for item in each}
            assert everywhere, f"{runs}, statuses: {owners}"
            assert found.keys() >= {SOURCE, *wanted}, f"{runs}, statuses: {owners}"
            return found

        found = eventually.eventually(so, WAIT_S, self.logs, interval_s=1.0)
        assert found is not None
        return found

    def leader(self) -> Kind:
        """Whose node leads, while at least one of Java's is there."""
        java = [each for each in self.living if self.nodes[each].kind is not Kind.OURS]
        leader, _ = self.nodes[java[-1]].joined()
        (kind,) = {each.kind for each in self.nodes.values() if each.address == leader}
        return kind

    # Topics

    def more(self) -> None:
        """Another topic comes, and every task gets some of it, whoever writes its configuration."""
        topic = f"{self.topics[0]}-{len(self.topics)}"
        kafka.create_topic(self.source, topic, partitions=PARTITIONS)
        self.topics.append(topic)
        sent = [
            Outgoing(value=b"%d" % number, partition=number % PARTITIONS) for number in range(100)
        ]
        kafka.produce(self.source, topic, sent)
        wanted = self._ends(self.source, topic)
        eventually.eventually(
            lambda: all(map(int.__ge__, self._ends(self.target, self.mirror(topic)), wanted)),
            WAIT_S,
            self.logs,
            interval_s=0.3,
        )
        for task, share in self.group.shares().items():
            assert topic in {each.topic for each in share}, f"{task}: {share}"

    def moves(self) -> None:
        """Whoever does it now mirrors, in every partition, what comes in from now on."""
        mirror = self.mirror(self.topics[0])
        wanted = [end + 50 for end in self._ends(self.source, self.topics[0])]

        def there() -> bool:
            return all(map(int.__ge__, self._ends(self.target, mirror), wanted))

        eventually.eventually(there, WAIT_S, self.logs, interval_s=0.3)

    def mirror(self, topic: str) -> str:
        return f"{self.flow[0]}.{topic}"

    def mirrored(self) -> int:
        """How many offsets the mirror of the first topic has, by whomever."""
        return sum(self._ends(self.target, self.mirror(self.topics[0])))

    def doubled(self) -> Doubled:
        """How many records stand in the mirror of the first topic that stand there before, and who
        wrote them again."""
        return who_wrote.doubled(self.target, self.mirror(self.topics[0]), source=self.flow[0])

    def complete(self) -> TopicsComparison:
        """What the mirrors have, as soon as nothing that was sent is missing."""
        self.traffic.stop()
        topics = {each: self.mirror(each) for each in self.topics}

        def all_there() -> TopicsComparison | None:
            found = replication_proof.compare_topics(self.source, self.target, topics)
            return found if found.count_differences(DifferenceKind.MISSING) == 0 else None

        found = eventually.eventually(all_there, WAIT_S, self.logs, interval_s=1.0)
        assert found is not None
        return found

    def logs(self) -> str:
        return "\n".join(f"== {name}\n{each.log()}" for name, each in self.nodes.items())

    def _behind(self, place: TopicPartition, offsets: range, end: int) -> int:
        """How many of the source's records at `offsets` stand before `end` of the mirror."""
        topic, partition = place.topic, place.partition
        source = kafka.read_partition(
            self.source, topic, partition, start=offsets.start, end=offsets.stop
        )
        mirrored = kafka.read_partition(self.target, self.mirror(topic), partition, end=end)
        copied = {each.content for each in mirrored}
        return len({each.content for each in source} & copied)

    def _ends(self, client: dict[str, str], topic: str) -> list[int]:
        if topic not in kafka.topics(client):
            return [-1] * PARTITIONS
        return [kafka.offsets(client, topic, each)[1] for each in range(PARTITIONS)]

    def __enter__(self) -> Mirroring:
        self.traffic.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.traffic.stop()
        self._open.close()
