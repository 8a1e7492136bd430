"""Classes such as users bring: a policy, filters. Files name them `tests.support.own_classes:…`."""

from __future__ import annotations

from collections.abc import Mapping

from mm2.core import naming

NAME = "tests.support.own_classes"


class Dashes(naming.DefaultReplicationPolicy):
    """Copies are called `from-<alias>-<topic>`."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"from-{source_alias}-{topic}"

    def topic_source(self, topic: str) -> str | None:
        parts = topic.split("-", 2)
        return parts[1] if parts[0] == "from" and len(parts) == 3 else None

    def upstream_topic(self, topic: str) -> str | None:
        return topic.split("-", 2)[2] if self.topic_source(topic) else None


class Keeps(Dashes):
    """Keeps names, and says so."""

    @property
    def renames_topics(self) -> bool:
        return False

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return topic

    def topic_source(self, topic: str) -> str | None:
        return None

    def upstream_topic(self, topic: str) -> str | None:
        return topic


class Suffixes:
    """Takes topics, and groups, whose names end as its own key `wanted.suffix` says."""

    def configure(self, props: Mapping[str, str]) -> None:
        self._suffix = props["wanted.suffix"]
        self._flow = f"{props['source.cluster.alias']}->{props['target.cluster.alias']}"

    def should_replicate_topic(self, topic: str) -> bool:
        return topic.endswith(self._suffix)

    def should_replicate_group(self, group: str) -> bool:
        return group.endswith(self._suffix)


class OnlyRetention:
    """Of a topic's settings."""

    def should_replicate_config_property(self, name: str) -> bool:
        return name == "retention.ms"

    def should_replicate_source_default(self, name: str) -> bool:
        return False


class Fails:
    def should_replicate_topic(self, topic: str) -> bool:
        return True

    def configure(self, props: Mapping[str, str]) -> None:
        raise RuntimeError("out of paper")
