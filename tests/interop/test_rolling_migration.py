"""A Java Connect cluster with work on it is replaced by ours, worker by worker, and back again.

Nothing that was configured, said or remembered may differ at the end, no task may have run twice at
a time or have stayed away, and no line that went through it may be missing or doubled.
"""

from __future__ import annotations

import functools
import pathlib

import pytest

from tests.support import eventually, idle_source, kafka, task_lives
from tests.support.connect_workers import Group, Kind, Worker

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(1800)]

JAVA, OURS = Kind.JAVA, Kind.OURS
WAIT_S = 300.0
TASKS = 5
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
PROTOCOLS = pytest.mark.parametrize("speaks", ["eager", "sessioned"])


class Cluster:
    """Connectors of every state, lines that flow through two of them, and workers that come and
    go; `sent` are the lines so far."""

    def __init__(self, group: Group, folder: pathlib.Path, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.read, self.written = folder / "read", folder / "written"
        self.sent: list[str] = []
        self.serving: list[str] = []

    @property
    def any(self) -> Worker:
        return self.group[self.serving[-1]]

    def start(self, name: str, kind: Kind) -> None:
        self.group.start(name, kind)
        self.serving.append(name)

    def replace(self, old: str, new: str, kind: Kind) -> None:
        """One leaves in order, then another comes; lines go on being written all the time."""
        self.send()
        assert self.group[old].stop() in (0, 143)
        self.serving.remove(old)
        self.send()
        self.start(new, kind)
        self.send()
        self.settled()

    def send(self) -> None:
        lines = [f"line {len(self.sent) + number}" for number in range(20)]
        self.sent += lines
        with self.read.open("a") as stream:
            stream.write("".join(f"{line}\n" for line in lines))

    def configure(self) -> None:
        self.read.touch()
        self.any.configure("idle", idle_source.config(tasks=TASKS))
        source = {"connector.class": SOURCE, "file": str(self.read), "topic": self.topic}
        self.any.configure("source", source)
        sink = {"connector.class": SINK, "file": str(self.written), "topics": self.topic}
        self.any.configure("sink", sink)
        for name, how in (("paused", "pause"), ("stopped", "stop")):
            self.any.configure(name, idle_source.config(tasks=1))
            eventually.eventually(functools.partial(self.any.runs, name), WAIT_S, name)
            assert self.any.ask("PUT", f"/connectors/{name}/{how}").is_success
        altered = {"offsets": [{"partition": {"p": 1}, "offset": {"o": 7}}]}

        def alter() -> bool:
            answer = self.any.ask("PATCH", "/connectors/stopped/offsets", altered)
            assert answer.is_success, answer.text
            return True

        eventually.eventually(alter, WAIT_S, "offsets of the stopped connector are altered")

    def settled(self) -> None:
        """Everything is as it should be, on workers that are there."""

        def holds() -> bool:
            serving = {self.group[name].address for name in self.serving}
            found = self.any.get("/connectors?expand=status")
            for name, tasks in (("idle", TASKS), ("source", 1), ("sink", 1)):
                expect(found[name]["status"], "RUNNING", tasks, serving)
            expect(found["paused"]["status"], "PAUSED", 1, serving)
            expect(found["stopped"]["status"], "STOPPED", 0, serving)
            assert self.written.read_text().splitlines() == self.sent
            offset = self.any.get("/connectors/source/offsets")["offsets"]
            assert [each["offset"] for each in offset] == [{"position": self.read.stat().st_size}]
            return True

        eventually.eventually(holds, WAIT_S, self.group.log_texts)

    def remembered(self) -> dict[str, object]:
        """What must not change."""
        return {
            "info": self.any.get("/connectors?expand=info"),
            "task configs": {
                name: self.any.get(f"/connectors/{name}/tasks")
                for name in ("idle", "source", "sink", "paused", "stopped")
            },
            "offsets": self.any.get("/connectors/stopped/offsets"),
            "topics": {
                name: sorted(self.any.get(f"/connectors/{name}/topics")[name]["topics"])
                for name in ("source", "sink")
            },
        }


def expect(status, state: str, tasks: int, workers: set[str]) -> None:
    parts = [status["connector"], *status["tasks"]]
    assert [each["state"] for each in parts] == [state] * (tasks + 1), status
    assert {each["worker_id"] for each in parts} <= workers, status


@PROTOCOLS
def test_java_is_replaced_by_ours_and_back(connect_group, tmp_path, topic, east, speaks):
    name = topic()
    kafka.create_topic(east.client_properties(), name)
    group = connect_group(
        settings={
            "connect.protocol": speaks,
            "scheduled.rebalance.max.delay.ms": "60000",
            "plugin.path": str(idle_source.PLUGIN_PATH),
        }
    )
    cluster = Cluster(group, tmp_path, name)
    names = [f"java-{number}" for number in range(3)]
    group.start_all(dict.fromkeys(names, JAVA))
    cluster.serving += names
    cluster.configure()
    cluster.send()
    cluster.settled()
    before = cluster.remembered()
    for number in range(3):
        cluster.replace(f"java-{number}", f"ours-{number}", OURS)
        assert cluster.remembered() == before
    for number in range(3):
        cluster.replace(f"ours-{number}", f"back-{number}", JAVA)
        assert cluster.remembered() == before
    lives = task_lives.of(task_lives.read(east.client_properties(), f"{group.group_id}-statuses"))
    assert lives.doubles == []
    assert lives.changes["task-source-0"] >= 2
