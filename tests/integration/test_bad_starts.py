"""Workers that must not start, as an operator sees it: an exit code, one reason with what to do."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import admin

from connect_runtime.system import child_processes
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import broker_settings
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import connect_workers, eventually, kafka
from tests.support import processes as support_processes
from tests.support.connect_workers import Group, Kind

pytestmark = pytest.mark.integration

Mode = connect_workers.Mode
JAVA, OURS = Kind.JAVA, Kind.OURS
WAIT_S = 60.0
SOON_S = 30.0
"""What a refusal may take: the interpreter's start is in it, on a busy machine."""
STRING = "org.apache.kafka.connect.storage.StringConverter"
WRONG_ARGUMENTS_OR_ENDED, BAD_SETTINGS, NOT_STARTED = 1, 2, 3
COMPACT = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """`took_s`: from its start to its end."""

    code: int
    log: str
    took_s: float

    def says(self, code: int, *texts: str) -> None:
        assert self.code == code, self.log
        for each in texts:
            assert each in self.log, self.log
        assert "Traceback" not in self.log, self.log


class Runs:
    """Runs our command, which must end by itself and leave nothing behind."""

    def __init__(self, folder: Path, client: Mapping[str, str], name: str) -> None:
        self.settings = {
            **client,
            **connect_workers.storage(name),
            "key.converter": STRING,
            "value.converter": STRING,
            "listeners": "http://127.0.0.1:0",
            **{
                f"{each}.storage.replication.factor": "1" for each in ("config", "offset", "status")
            },
        }
        self._file, self._log = folder / "refused.properties", folder / "refused.log"

    def __call__(self, within_s: float = SOON_S, **changed: str) -> Ended:
        """`changed` settings have `_` for `.`."""
        more = {name.replace("_", "."): value for name, value in changed.items()}
        self._file.write_text(broker_settings.render_properties({**self.settings, **more}))
        return self.file(self._file, within_s=within_s)

    def file(self, file: Path, within_s: float = SOON_S) -> Ended:
        begun_s = SystemClock().now_s()
        with self._log.open("wb") as output:
            child = child_processes.start_process(
                OURS.command(Mode.DISTRIBUTED, [file], flags=()),
                output=output,
                cwd=support_processes.ROOT,
            )
        try:
            code = child.wait(within_s)
        finally:
            child.kill()
        log = self._log.read_text()
        assert code is not None, log
        assert support_processes.mentioning(file) == []
        return Ended(code=code, log=log, took_s=SystemClock().now_s() - begun_s)


@pytest.fixture
def refused(east: SandboxCluster, topic: Callable[..., str], tmp_path: Path) -> Runs:
    return Runs(tmp_path, east.client_properties(), topic("group"))


# Its settings, and its machine


def test_one_topic_for_two_purposes(refused):
    refused(config_storage_topic="same", status_storage_topic="same").says(
        BAD_SETTINGS, "config.storage.topic", "status.storage.topic", "its own topic"
    )


@pytest.mark.full
def test_a_file_that_cannot_be_read(refused, tmp_path):
    refused.file(tmp_path / "nowhere").says(BAD_SETTINGS, "nowhere", "No such file")
    refused.file(tmp_path).says(BAD_SETTINGS, str(tmp_path), "Is a directory")
    (tmp_path / "odd").write_bytes(b"bootstrap.servers=\\u12\n\xff\x00")
    refused.file(tmp_path / "odd").says(BAD_SETTINGS, str(tmp_path / "odd"))


def test_a_port_that_another_has(refused):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(listeners=f"http://127.0.0.1:{port}").says(
            BAD_SETTINGS, f"127.0.0.1:{port}", "in use"
        )


@pytest.fixture
def nobody() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.full
def test_brokers_that_are_away(refused, nobody):
    """Java gives them a minute, too."""
    ended = refused(80, bootstrap_servers=nobody)
    ended.says(NOT_STARTED, nobody)
    assert ended.took_s > 50


@pytest.mark.full
def test_nobody_has_to_wait_for_brokers_that_are_away(nobody, topic, tmp_path):
    group = Group({"bootstrap.servers": nobody}, topic("group"), folder=tmp_path)
    with group:
        worker = group.add("one", OURS).launch()
        eventually.eventually(lambda: "Connection refused" in worker.log_text(), WAIT_S)
        worker.sigterm()
        assert worker.ended(SOON_S) == 143


# What it finds on the brokers


@pytest.mark.parametrize(
    ("purpose", "policy"),
    [
        ("config", "delete"),
        pytest.param("offset", "delete", marks=pytest.mark.full),
        pytest.param("status", "compact,delete", marks=pytest.mark.full),
    ],
)
def test_a_topic_that_would_forget(east, refused, purpose, policy):
    name = refused.settings[f"{purpose}.storage.topic"]
    kafka.create_topic(east.client_properties(), name, config={"cleanup.policy": policy})
    refused().says(
        NOT_STARTED, name, f"{purpose}.storage.topic", policy, "set cleanup.policy=compact"
    )


def test_a_config_topic_with_two_partitions(east, refused):
    name = refused.settings["config.storage.topic"]
    kafka.create_topic(east.client_properties(), name, partitions=2, config=COMPACT)
    refused().says(NOT_STARTED, name, "has 2 partitions", "exactly one")


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.full)])
def test_a_group_of_consumers(east, refused, topic, protocol):
    """With the new protocol for consumers (KIP-848), and the one before."""
    client = east.client_properties()
    group = refused.settings["group.id"]
    consumer = confluent_kafka.Consumer(
        kafka.client_config(client, group_id=group, group_protocol=protocol)
    )
    with contextlib.closing(consumer):
        consumer.subscribe([kafka.create_topic(client, topic())])
        eventually.eventually(lambda: consumer.poll(0.2) is None and consumer.assignment(), WAIT_S)
        refused().says(WRONG_ARGUMENTS_OR_ENDED, group, "choose another group.id")
        assert consumer.assignment()


@pytest.mark.full
def test_brokers_that_let_nobody_in(own_cluster, topic, tmp_path):
    """Wrong passwords, and no rights: each says what to change, and takes no minute for it."""
    fort = own_cluster("fort", users=["alice"])
    runs = Runs(tmp_path, fort.client_properties("alice"), topic("group"))
    given = runs.settings["sasl.jaas.config"]
    runs(sasl_jaas_config=given.replace('password="', 'password="x')).says(
        NOT_STARTED, "sasl.jaas.config"
    )
    runs().says(NOT_STARTED, runs.settings["offset.storage.topic"], "grant")
    as_admin = fort.client_properties()
    for purpose in ("config", "offset", "status"):
        kafka.create_topic(as_admin, runs.settings[f"{purpose}.storage.topic"], config=COMPACT)
    runs().says(NOT_STARTED, runs.settings["offset.storage.topic"], "grant")
    allow_topics(as_admin, "alice", runs.settings["group.id"])
    runs().says(WRONG_ARGUMENTS_OR_ENDED, runs.settings["group.id"], "READ permission on the group")


def allow_topics(as_admin: Mapping[str, str], user: str, prefix: str) -> None:
    """Everything, on topics whose names begin so."""
    binding = admin.AclBinding(
        admin.ResourceType.TOPIC,
        prefix,
        admin.ResourcePatternType.PREFIXED,
        f"User:{user}",
        "*",
        admin.AclOperation.ALL,
        admin.AclPermissionType.ALLOW,
    )
    kafka.create_acls(as_admin, [binding])
