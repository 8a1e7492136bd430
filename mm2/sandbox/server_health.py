"""Checks whether the brokers and ZooKeeper servers of a running sandbox respond."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent import futures
from dataclasses import dataclass
from typing import Literal

import confluent_kafka

from connect_runtime.system import child_processes
from mm2.sandbox.sandbox_clients import SandboxClients
from mm2.sandbox.sandbox_state import RunningBroker, SandboxState

ServerHealthStatus = Literal["up", "dead", "not answering"]

_HEALTH_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHealth:
    """Health of a server process; `name` is, for example, `broker 1` or `zookeeper`."""

    cluster: str
    name: str
    address: str
    health: ServerHealthStatus
    pid: int
    log: str

    @property
    def is_up(self) -> bool:
        return self.health == "up"

    def describe(self) -> str:
        """Describe the server's health: `dead: process 4711 has ended; its log: …`, or `up`."""
        match self.health:
            case "up":
                return "up"
            case "dead":
                return f"dead: process {self.pid} has ended; its log: {self.log}"
            case "not answering":
                return (
                    f"not responding: process {self.pid} exists, but did not respond within "
                    f"{_HEALTH_TIMEOUT_S:.0f} s; its log: {self.log}"
                )


def check_servers(state: SandboxState) -> list[ServerHealth]:
    """Check every broker and ZooKeeper server. Takes up to `_HEALTH_TIMEOUT_S` seconds."""
    brokers = [(cluster, broker) for cluster in state.clusters for broker in cluster.brokers]
    with futures.ThreadPoolExecutor(max(1, len(brokers))) as pool:
        asked = [
            pool.submit(_check_broker, cluster.properties, broker) for cluster, broker in brokers
        ]
        answers = iter([each.result() for each in asked])
    found: list[ServerHealth] = []
    for cluster in state.clusters:
        found += [
            ServerHealth(
                cluster=cluster.name,
                name=f"broker {broker.node_id}",
                address=broker.address,
                health=next(answers),
                pid=broker.pid,
                log=broker.log,
            )
            for broker in cluster.brokers
        ]
        if cluster.zookeeper is not None:
            keeper = cluster.zookeeper
            found.append(
                ServerHealth(
                    cluster=cluster.name,
                    name="zookeeper",
                    address="",
                    health="up" if child_processes.is_process_alive(keeper.pid) else "dead",
                    pid=keeper.pid,
                    log=keeper.log,
                )
            )
    return found


def _check_broker(properties: Mapping[str, str], broker: RunningBroker) -> ServerHealthStatus:
    """Check a broker by sending a metadata request directly to it."""
    if not child_processes.is_process_alive(broker.pid):
        return "dead"
    alone = {**properties, "bootstrap.servers": broker.address}
    admin = SandboxClients(alone, alias=f"broker {broker.node_id}").create_admin_client(
        "mm2-sandbox-status"
    )
    try:
        admin.list_topics(timeout=_HEALTH_TIMEOUT_S)
    except confluent_kafka.KafkaException:
        return "not answering" if child_processes.is_process_alive(broker.pid) else "dead"
    return "up"
