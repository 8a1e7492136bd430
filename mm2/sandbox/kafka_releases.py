"""The Kafka releases that a sandbox can run, and their differences.

The newest is the default. Old releases are for migration tests; each is downloaded when it is first
used.
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
    """A Kafka release."""

    jars: JarSet
    ready_text: str = "Kafka Server started"
    """Text that node `{node_id}` logs once it accepts clients."""
    zookeeper: bool = False
    """Whether the cluster needs a ZooKeeper; otherwise brokers are their own controllers."""
    authorizer: str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    key_in_settings: bool = False
    """Whether it cannot read an unencrypted key from a file."""
    unknown_settings: tuple[str, ...] = ()
    """Prefixes of settings that were introduced later."""
    extra_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings for this release only."""

    @property
    def version(self) -> str:
        """The full version, such as `2.8.2`."""
        return self.jars.name.removeprefix("kafka-")

    @property
    def short_version(self) -> str:
        """`2.8`."""
        return self.version.rpartition(".")[0]

    def defaults(self, brokers: int) -> dict[str, str]:
        """Return the default settings for `brokers` nodes that this release supports."""
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
"""From the oldest to the newest."""


def find_release(version: str) -> KafkaRelease:
    """Return the release of `2.8` or `2.8.2`. Raises `SandboxError` with the available versions."""
    for release in ALL_RELEASES:
        if version in {release.version, release.short_version}:
            return release
    known = ", ".join(f"{release.short_version} ({release.version})" for release in ALL_RELEASES)
    raise SandboxError(f"unknown Kafka version {version!r}: a sandbox can run {known}")
