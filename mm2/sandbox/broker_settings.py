"""Default settings of sandbox brokers: small, quick to start, and without deletion of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CLIENT_LISTENER = "CLIENT"
CONTROLLER_LISTENER = "CONTROLLER"
LOOPBACK_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraListener:
    """An additional broker listener, bound to `port` and advertised as `advertised`.

    Used with a proxy that listens at `advertised` ("host:port") and forwards to `port`.
    """

    name: str
    port: int
    advertised: str


def make_default_settings(brokers: int) -> dict[str, str]:
    """Return the default broker settings for a cluster of `brokers` nodes, without addresses,
    security settings and overrides."""
    copies = min(3, brokers)
    in_sync = max(1, copies - 1)
    return {
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": str(copies),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "group.initial.rebalance.delay.ms": "0",
        # Mirrors keep the timestamps of old records: the default of 7 days would delete them.
        "log.retention.ms": "-1",
        "log.cleaner.threads": "1",
        "log.cleaner.dedupe.buffer.size": "4194304",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "num.recovery.threads.per.data.dir": "1",
        "background.threads": "2",
        # A killed broker can register again only after its session timeout (9 s by default).
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "300",
        # A single voter does not have to wait for other voters.
        "controller.quorum.election.timeout.ms": "100" if brokers == 1 else "1000",
    }


def make_kraft_addresses(
    node_id: int,
    *,
    client_port: int,
    controller_ports: Mapping[int, int],
    listeners: Sequence[ExtraListener] = (),
    protocol: str = "PLAINTEXT",
) -> dict[str, str]:
    """Return the listener and controller settings of a KRaft node.

    `controller_ports` maps node ids to ports.
    """
    bound = {CLIENT_LISTENER: f"{LOOPBACK_HOST}:{client_port}"}
    bound |= {listener.name: f"{LOOPBACK_HOST}:{listener.port}" for listener in listeners}
    advertised = bound | {listener.name: listener.advertised for listener in listeners}
    controller = {CONTROLLER_LISTENER: f"{LOOPBACK_HOST}:{controller_ports[node_id]}"}
    voters = (f"{node}@{LOOPBACK_HOST}:{port}" for node, port in sorted(controller_ports.items()))
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "listeners": _join_listener_addresses(bound | controller),
        "advertised.listeners": _join_listener_addresses(advertised),
        "controller.listener.names": CONTROLLER_LISTENER,
        "controller.quorum.voters": ",".join(voters),
        "inter.broker.listener.name": CLIENT_LISTENER,
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name in (bound | controller)
        ),
    }


def make_zookeeper_addresses(
    node_id: int,
    *,
    client_port: int,
    zookeeper: str,
    session_timeout_ms: int,
    listeners: Sequence[ExtraListener] = (),
    protocol: str = "PLAINTEXT",
) -> dict[str, str]:
    """Return the listener settings of a broker that uses ZooKeeper at `zookeeper` ("host:port")."""
    bound = {CLIENT_LISTENER: f"{LOOPBACK_HOST}:{client_port}"}
    bound |= {listener.name: f"{LOOPBACK_HOST}:{listener.port}" for listener in listeners}
    advertised = bound | {listener.name: listener.advertised for listener in listeners}
    return {
        "broker.id": str(node_id),
        "zookeeper.connect": zookeeper,
        "zookeeper.session.timeout.ms": str(session_timeout_ms),
        "listeners": _join_listener_addresses(bound),
        "advertised.listeners": _join_listener_addresses(advertised),
        "inter.broker.listener.name": CLIENT_LISTENER,
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name in bound),
    }


def render_properties(settings: Mapping[str, str]) -> str:
    """Render a Java properties file. Backslashes and newlines in values are escaped."""
    lines = (f"{key}={_escape_value(value)}" for key, value in sorted(settings.items()))
    return "\n".join([*lines, ""])


def _join_listener_addresses(places: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in places.items())


def _escape_value(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
