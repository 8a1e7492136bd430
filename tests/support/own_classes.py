"""Classes such as users bring, named `tests.support.own_classes:…`: policy, filters, transforms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from connect_runtime.api.config_def import ConfigDef, Type
from connect_runtime.api.records import AnyRecord, ConnectRecord
from connect_runtime.api.transformation import Predicate, Transformation
from mm2.topics.replication_policy import DefaultReplicationPolicy

NAME = "tests.support.own_classes"


class Dashes(DefaultReplicationPolicy):
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


class Moody(DefaultReplicationPolicy):
    """Fails for as long as there is a file that its own key `moody.file` names."""

    def configure(self, props: Mapping[str, str]) -> None:
        if Path(props["moody.file"]).exists():
            raise RuntimeError("in a bad mood")


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


class Stamp(Transformation):
    """Puts its key `stamp` before values, and drops those that hold its key `without`."""

    deterministic = True

    def config(self) -> ConfigDef:
        return (
            ConfigDef()
            .define("stamp", Type.STRING, "What to put before values.")
            .define("without", Type.STRING, "Which to drop.", default="")
        )

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._stamp = str(configs["stamp"]).encode()
        self._without = str(configs.get("without", "")).encode()

    def apply(self, record: AnyRecord) -> AnyRecord | None:
        if self._without and self._without in (record.value or b""):
            return None
        return record.new_record(value=self._stamp + (record.value or b""))


class Reroute(Transformation):
    """What a mirror cannot do."""

    def apply(self, record: AnyRecord) -> AnyRecord | None:
        return record.new_record(topic="elsewhere")


class Text(Transformation):
    """Leaves text, which only a converter could write."""

    def apply(self, record: AnyRecord) -> AnyRecord | None:
        return record.new_record(value="text")


class HasKey(Predicate):
    deterministic = True

    def test(self, record: ConnectRecord) -> bool:
        return record.key is not None


class Sometimes(Predicate):
    """Chooses every second record that it sees."""

    def __init__(self) -> None:
        self._seen = 0

    def test(self, record: ConnectRecord) -> bool:
        self._seen += 1
        return self._seen % 2 == 0


class Picky(Transformation):
    """Fails on records whose value is its key `poison`."""

    deterministic = True

    def config(self) -> ConfigDef:
        return ConfigDef().define("poison", Type.STRING, "What it fails on.")

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._poison = str(configs["poison"]).encode()

    def apply(self, record: AnyRecord) -> AnyRecord | None:
        if record.value == self._poison:
            raise ValueError("it is poison")
        return record
