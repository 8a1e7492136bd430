"""The Kafka releases that a sandbox can run, and how they differ for it.

The newest is the default. Old ones exist for tests of migrations; each is downloaded when a
cluster first needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mm2.sandbox import broker_settings, kafka_jars
from mm2.sandbox.kafka_jars import JarSet
from mm2.sandbox.sandbox_errors import SandboxError

_SHARE_GROUP_SETTINGS = "share.coordinator."
_KRAFT_SETTINGS = (
    "broker.session.timeout.ms",
    "broker.heartbeat.interval.ms",
    "controller.quorum.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRelease:
    """One release.

    `serving` is what node `{node_id}` logs once clients may come. With `zookeeper` the cluster has
    a ZooKeeper beside its brokers; without, they are their own controllers. `key_in_settings`: it
    reads no key without a password from a file. Settings that begin with one of `unknown_settings`
    came later; `own_settings` are for this release alone.
    """

    artefacts: JarSet
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
            for key, value in broker_settings.make_default_settings(brokers).items()
            if not key.startswith(self.unknown_settings)
        }
        return known | dict(self.own_settings)


NEWEST_RELEASE = KafkaRelease(artefacts=kafka_jars.KAFKA_JARS)
RELEASE_3_9 = KafkaRelease(
    artefacts=kafka_jars.KAFKA_3_9_JARS, unknown_settings=(_SHARE_GROUP_SETTINGS,)
)
RELEASE_2_8 = KafkaRelease(
    artefacts=kafka_jars.KAFKA_2_8_JARS,
    serving="[KafkaServer id={node_id}] started",
    zookeeper=True,
    authorizer="kafka.security.authorizer.AclAuthorizer",
    key_in_settings=True,
    unknown_settings=(_SHARE_GROUP_SETTINGS, *_KRAFT_SETTINGS),
    # Brokers that stop all at once have nobody to hand their partitions to: ask again soon.
    own_settings={"controlled.shutdown.retry.backoff.ms": "200"},
)

ALL_RELEASES = (RELEASE_2_8, RELEASE_3_9, NEWEST_RELEASE)
"""From old to new."""


def find_release(version: str) -> KafkaRelease:
    """The release of a version, `2.8` or `2.8.2`; raises `SandboxError` naming what there is."""
    for release in ALL_RELEASES:
        if version in {release.version, release.short_version}:
            return release
    known = ", ".join(f"{release.short_version} ({release.version})" for release in ALL_RELEASES)
    raise SandboxError(f"Kafka version {version!r}: a sandbox can run {known}")
