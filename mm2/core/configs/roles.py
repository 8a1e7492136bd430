"""Which properties each client of a connector gets (`MirrorConnectorConfig`).

Of later sources of a value the last one counts: a cluster's plain security keys, the role's own,
the role's own on that side: `source.cluster.X`, `consumer.X`, `source.consumer.X`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.api import config_def
from mm2.core.configs import client_keys

CLIENT_ID = "client.id"


@dataclass(frozen=True, slots=True)
class Role:
    """A kind of client on one side: `side` is source or target, `client` its prefix's word."""

    side: str
    client: str

    @property
    def cluster_prefix(self) -> str:
        return f"{self.side}.cluster."


SOURCE_CONSUMER = Role("source", "consumer")
TARGET_CONSUMER = Role("target", "consumer")
SOURCE_PRODUCER = Role("source", "producer")
TARGET_PRODUCER = Role("target", "producer")
SOURCE_ADMIN = Role("source", "admin")
TARGET_ADMIN = Role("target", "admin")
ALL = (
    *(SOURCE_CONSUMER, TARGET_CONSUMER),
    *(SOURCE_PRODUCER, TARGET_PRODUCER),
    *(SOURCE_ADMIN, TARGET_ADMIN),
)


def properties(props: Mapping[str, str], role: Role) -> dict[str, str]:
    """Of a consumer: it commits nothing, and starts at the earliest unless told otherwise."""
    plain = config_def.with_prefix(props, role.cluster_prefix)
    found = {name: value for name, value in plain.items() if name in client_keys.CLIENT}
    found.update(config_def.with_prefix(props, f"{role.client}."))
    found.update(config_def.with_prefix(props, f"{role.side}.{role.client}."))
    if role.client == "consumer":
        found["enable.auto.commit"] = "false"
        found.setdefault("auto.offset.reset", "earliest")
    return found


def named(props: Mapping[str, str], role: Role, *, label: str, use: str) -> dict[str, str]:
    """With the `client.id` that Java gives: what the user says first, `label`, what it is for.

    `use` is such as "replication-consumer" (reference 1.10).
    """
    found = properties(props, role)
    given = found.get(CLIENT_ID)
    found[CLIENT_ID] = "|".join(part for part in (given, label, use) if part is not None)
    return found


def label(source: str, target: str, connector: str, *, task: int | str | None = None) -> str:
    """`A->B|name`, of a task `A->B|name-0`; its number is "?" where its configuration has none."""
    return f"{source}->{target}|{connector}" + ("" if task is None else f"-{task}")


def data_producer(props: Mapping[str, str]) -> dict[str, str]:
    """What a connector says of the producer that writes its records."""
    return config_def.with_prefix(props, "producer.override.")


def task_producer(props: Mapping[str, str]) -> dict[str, str]:
    """Of a task's records; in dedicated mode what is said of the cluster's producers holds, too."""
    return {**properties(props, TARGET_PRODUCER), **data_producer(props)}


CLIENT_WORDS = tuple(f"{each}." for each in ("admin", "consumer", "producer"))
SIDES = tuple(f"{each}{word}" for each in ("source.", "target.") for word in CLIENT_WORDS)
CLUSTERS = ("source.cluster.", "target.cluster.")
PREFIXES = (*SIDES, *CLIENT_WORDS, *CLUSTERS, "producer.override.")
"""Under which a connector's configuration speaks of clients."""
