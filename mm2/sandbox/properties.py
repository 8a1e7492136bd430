"""The settings of sandbox brokers: small, quick to start, and careful not to delete records."""

from __future__ import annotations

from collections.abc import Mapping

CLIENT_LISTENER = "CLIENT"
CONTROLLER_LISTENER = "CONTROLLER"


def defaults(brokers: int) -> dict[str, str]:
    """Settings for a cluster of `brokers` nodes, before addresses, security and users' own."""
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
        # A mirror of old records keeps their timestamps: by the default of 7 days they would go.
        "log.retention.ms": "-1",
        "log.cleaner.threads": "1",
        "log.cleaner.dedupe.buffer.size": "4194304",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "num.recovery.threads.per.data.dir": "1",
        "background.threads": "2",
        # Nobody else stands for election in a fresh sandbox: no reason to wait a second for them.
        "controller.quorum.election.timeout.ms": "100" if brokers == 1 else "500",
    }


def render(settings: Mapping[str, str]) -> str:
    """The text of a Java properties file; backslashes and line ends in values are escaped."""
    lines = (f"{key}={_escaped(value)}" for key, value in sorted(settings.items()))
    return "\n".join([*lines, ""])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
