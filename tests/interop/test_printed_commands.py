"""Every command of Kafka's tools that people are told to type works: they run from the jars."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from mm2 import suggested_commands
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.suggested_commands import OperatorCommands
from mm2.topics import replication_policy
from tests.interop import java_tools
from tests.support import kafka, printed
from tests.support.kafka import Properties
from tests.support.printed import Recording

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

OLD_SETTING = "message.timestamp.difference.max.ms"
"""What only brokers before 3.6 have; their operators alone are told of it."""
NOT_TOLD = {"kafka-consumer-groups.sh"}
"""Runs in other tests."""


@pytest.fixture(scope="module")
def fort() -> Iterator[SandboxCluster]:
    """With ACLs, so that every kind of command has somebody to obey it."""
    with SandboxCluster("fort", users=["mirror"]) as running:
        yield running


def order(line: str) -> tuple[bool, str]:
    """What deletes comes last."""
    return ("--delete" in line, line)


def test_every_command_of_kafkas_tools_is_obeyed(fort, tmp_path):
    properties = fort.client_properties()
    lines = "".join(f"{key}={value}\n" for key, value in properties.items())
    (tmp_path / suggested_commands.ADMIN_PROPERTIES_PLACEHOLDER).write_text(lines)
    for topic in (
        printed.TOPIC,
        printed.MIRROR,
        replication_policy.format_offset_map_topic("west"),
    ):
        kafka.create_topic(properties, topic)
    hanging = leave_open(properties, printed.MIRROR)
    side = Recording(bootstrap=fort.bootstrap, principal="User:mirror", secured=True)
    list(printed.messages(OperatorCommands(source=side, target=side), hanging=hanging))
    wanted = sorted({each for each in side.given if OLD_SETTING not in each}, key=order)
    assert {shlex.split(each)[0] for each in wanted} == java_tools.TOOLS.keys() - NOT_TOLD
    misspelt = side.build_set_topic_configs_command(printed.TOPIC, {"no.such.setting": "1"})
    *answers, wrong = java_tools.run([*wanted, misspelt], folder=tmp_path)
    for line, (code, said) in zip(wanted, answers, strict=True):
        assert code == 0, f"{line}\n{said}"
        assert "Error while executing" not in said, f"{line}\n{said}"
    assert wrong[0] != 0
    assert kafka.read_partition(properties, f"east.{printed.NEW}") == []


def leave_open(properties: Properties, topic: str) -> int:
    """A transaction that its producer abandons: the offset at which it begins."""
    producer = kafka.transactional_producer(properties, "abandoned", transaction_timeout_ms=600000)
    producer.begin_transaction()
    found: list[int | None] = []
    producer.produce(topic, b"x", on_delivery=lambda _, message: found.append(message.offset()))
    assert producer.flush(30.0) == 0
    assert found[0] is not None
    return found[0]
