"""The Kafka releases that a sandbox can run, and their differences.

The newest release is the default. Older releases are used to test migrations. Each release is
downloaded when it is first used.
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
    """A Kafka release that a sandbox can run."""

    jars: JarSet
    ready_text: str = "Kafka Server started"
    """Log text of node `{node_id}` that shows that the broker accepts clients."""
    zookeeper: bool = False
    """True if the cluster needs ZooKeeper; otherwise each broker is also a KRaft controller."""
    authorizer: str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    key_in_settings: bool = False
    """True if brokers of this release cannot read an unencrypted TLS private key from a file."""
    unknown_settings: tuple[str, ...] = ()
    """Prefixes of settings that were introduced in later releases."""
    extra_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings that apply to this release only."""

    @property
    def version(self) -> str:
        """Full release version, such as `2.8.2`."""
        return self.jars.name.removeprefix("kafka-")

    @property
    def short_version(self) -> str:
        """Major and minor version, such as `2.8`."""
        return self.version.rpartition(".")[0]

    def make_default_settings(self, brokers: int) -> dict[str, str]:
        """Return the default broker settings that this release supports, for a cluster of `brokers`
        nodes."""
        known = {
            key: value
            for key, value in broker_settings.make_default_settings(brokers).items()
            if not key.startswith(self.unknown_settings)
        }
        return known | dict(self.extra_settings)


NEWEST_RELEASE = KafkaRelease(jars=kafka_jars.KAFKA_JARS)
RELEASE_3_9 = KafkaRelease(
    jars=kafka_jars.KAFKA_3_9_JARS, unknown_settings=(_SHARE_GROUP_SETTINGS,)
)
RELEASE_2_8 = KafkaRelease(
    jars=kafka_jars.KAFKA_2_8_JARS,
    ready_text="[KafkaServer id={node_id}] started",
    zookeeper=True,
    authorizer="kafka.security.authorizer.AclAuthorizer",
    key_in_settings=True,
    unknown_settings=(_SHARE_GROUP_SETTINGS, *_KRAFT_SETTINGS),
    # Brokers that stop together cannot move their partitions: retry the shutdown soon.
    extra_settings={"controlled.shutdown.retry.backoff.ms": "200"},
)

ALL_RELEASES = (RELEASE_2_8, RELEASE_3_9, NEWEST_RELEASE)
"""All Kafka releases that a sandbox can run, from oldest to newest."""


def find_release(version: str) -> KafkaRelease:
    """Find a Kafka release by version (`2.8` or `2.8.2`).

    Raises `SandboxError` with the available versions if the version is unknown.
    """
    for release in ALL_RELEASES:
        if version in {release.version, release.short_version}:
            return release
    known = ", ".join(f"{release.short_version} ({release.version})" for release in ALL_RELEASES)
    raise SandboxError(f"unknown Kafka version {version!r}; a sandbox can run {known}")
