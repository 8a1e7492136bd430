"""The Kafka releases that a sandbox can run, and everything in which they differ for it.

The newest is the default. The old ones are there for migrations: each is fetched when a cluster
first asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mm2.sandbox import artefacts, failures, properties

_SHARE_GROUPS = "share.coordinator."
_KRAFT = ("broker.session.timeout.ms", "broker.heartbeat.interval.ms", "controller.quorum.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release.

    `serving` is what node `{node_id}` logs once clients may come. With `zookeeper` the cluster has
    a ZooKeeper beside its brokers; without, they are their own controllers. `key_in_settings`: it
    reads no key without a password from a file. Settings that begin with one of `unknown_settings`
    came later; `own_settings` are for this release alone.
    """

    artefacts: artefacts.ArtefactSet
    serving: str = "Kafka Server started"
    zookeeper: bool = False
    authorizer: str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    key_in_settings: bool = False
    unknown_settings: tuple[str, ...] = ()
    own_settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """In full: `2.8.2`."""
        return self.artefacts.name.removeprefix("kafka-")

    @property
    def short_version(self) -> str:
        """`2.8`."""
        return self.version.rpartition(".")[0]

    def defaults(self, brokers: int) -> dict[str, str]:
        """Our settings for a cluster of `brokers` nodes that this release knows."""
        known = {
            key: value
            for key, value in properties.defaults(brokers).items()
            if not key.startswith(self.unknown_settings)
        }
        return known | dict(self.own_settings)


NEWEST = Release(artefacts=artefacts.KAFKA)
KAFKA_3_9 = Release(artefacts=artefacts.KAFKA_3_9, unknown_settings=(_SHARE_GROUPS,))
KAFKA_2_8 = Release(
    artefacts=artefacts.KAFKA_2_8,
    serving="[KafkaServer id={node_id}] started",
    zookeeper=True,
    authorizer="kafka.security.authorizer.AclAuthorizer",
    key_in_settings=True,
    unknown_settings=(_SHARE_GROUPS, *_KRAFT),
    # Brokers that stop all at once have nobody to hand their partitions to: ask again soon.
    own_settings={"controlled.shutdown.retry.backoff.ms": "200"},
)

ALL = (KAFKA_2_8, KAFKA_3_9, NEWEST)
"""From old to new."""


def find(version: str) -> Release:
    """The release of a version, `2.8` or `2.8.2`; raises `SandboxError` naming what there is."""
    for release in ALL:
        if version in {release.version, release.short_version}:
            return release
    known = ", ".join(f"{release.short_version} ({release.version})" for release in ALL)
    raise failures.SandboxError(f"Kafka version {version!r}: a sandbox can run {known}")
