"""Brokers that join a running cluster, and partitions that move between brokers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from connect_runtime.protocol.request_builders import ControllerTarget, RequestBuilder
from mm2.sandbox import broker_process, port_reservation
from mm2.sandbox.broker_process import KafkaBroker
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import eventually, kafka
from tests.support.kafka import Properties
from tests.support.wire import Driver

_SOON_S = 60.0


@contextmanager
def added(running: SandboxCluster, node_id: int) -> Iterator[KafkaBroker]:
    """One more broker, at an address of its own; broker 1 stays the only controller."""
    first = running.brokers[1]
    port = port_reservation.reserve_port()
    address = f"CLIENT://127.0.0.1:{port.port}"
    folder = running.folder / f"broker-{node_id}"
    changed = {
        "process.roles": "broker",
        "node.id": str(node_id),
        "listeners": address,
        "advertised.listeners": address,
        "log.dirs": str(folder / "data"),
    }
    spec = dataclasses.replace(
        first._spec, node_id=node_id, folder=folder, settings={**first._settings, **changed}
    )
    made = KafkaBroker(spec)
    broker_process.format_storage([made], cluster_id=running.cluster_id)
    try:
        made.start()
        yield made
    finally:
        made.kill()
        port.release()


def reassign(access: Properties, topic: str, replicas: Sequence[int]) -> None:
    """Every partition of the topic goes to these brokers; returns once they lead it."""
    count = kafka.partition_count(access, topic)

    def build(version: int, m: Any) -> Any:
        partitions = tuple(
            m.ReassignablePartition(partition_index=number, replicas=tuple(replicas))
            for number in range(count)
        )
        topics = (m.ReassignableTopic(name=topic, partitions=partitions),)
        return m.AlterPartitionReassignmentsRequest(topics=topics)

    message = RequestBuilder(api="alter_partition_reassignments", low=0, high=0, build=build)
    with Driver(access) as driver:
        answer = driver.ask(ControllerTarget(), message)
    codes = [part.error_code for each in answer.responses for part in each.partitions]
    assert (answer.error_code, codes) == (0, [0] * count), answer
    await_leaders(access, topic, set(replicas))


def await_leaders(access: Properties, topic: str, wanted: set[int]) -> None:
    """Until all partitions are led, and kept in sync, by none but these."""

    def led() -> bool:
        found = kafka.partitions(access, topic).values()
        return all({each.leader, *each.isrs} <= wanted for each in found)

    eventually.eventually(led, _SOON_S, f"{topic} is led by {wanted}")
