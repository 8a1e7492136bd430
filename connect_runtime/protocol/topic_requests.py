"""Admin requests that create topics, add partitions, and read and change configurations.

Every topic or resource in a response has its own error code.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.protocol.request_builders import RequestBuilder

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
"""Resource type of broker configurations in Kafka requests; topic configurations have the type
`TOPIC_RESOURCE`. A request for a broker's configuration must be sent to that broker."""
_BROKER_DEFAULT = -1
_CREATE_WITH_BROKER_DEFAULT = 4
_CONFIGS_WITH_DOCUMENTATION = 3
_SET_CONFIG, _DELETE_CONFIG = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create.

    If `partitions` is -1 or `replication_factor` is None, the broker uses its default (KIP-464,
    brokers 2.4 or later).
    """

    name: str
    partitions: int
    replication_factor: int | None
    configs: Mapping[str, str] = field(default_factory=dict)


def build_create_topics_request(
    topics: Sequence[NewTopic], *, timeout_ms: int, validate_only: bool = False
) -> RequestBuilder:
    """Build a request that creates topics. Send it to the controller."""

    def build_request_message(_: int, m: Any) -> Any:
        return m.CreateTopicsRequest(
            topics=tuple(
                m.CreatableTopic(
                    name=topic.name,
                    num_partitions=topic.partitions,
                    replication_factor=_BROKER_DEFAULT
                    if topic.replication_factor is None
                    else topic.replication_factor,
                    assignments=(),
                    configs=tuple(
                        m.CreatableTopicConfig(name=name, value=value)
                        for name, value in topic.configs.items()
                    ),
                )
                for topic in topics
            ),
            timeout=datetime.timedelta(milliseconds=timeout_ms),
            validate_only=validate_only,
        )

    uses_default = any(
        each.replication_factor is None or each.partitions == _BROKER_DEFAULT for each in topics
    )
    low = _CREATE_WITH_BROKER_DEFAULT if uses_default else 2
    return RequestBuilder(api="create_topics", low=low, high=7, build=build_request_message)


def build_create_partitions_request(
    counts: Mapping[str, int], *, timeout_ms: int
) -> RequestBuilder:
    """Build a request that increases the number of partitions of topics. Send it to the
    controller."""

    def build_request_message(_: int, m: Any) -> Any:
        return m.CreatePartitionsRequest(
            topics=tuple(
                m.CreatePartitionsTopic(name=name, count=count, assignments=None)
                for name, count in counts.items()
            ),
            timeout=datetime.timedelta(milliseconds=timeout_ms),
            validate_only=False,
        )

    return RequestBuilder(api="create_partitions", low=0, high=3, build=build_request_message)


def build_describe_configs_request(resource_type: int, names: Sequence[str]) -> RequestBuilder:
    """Build a request for all configs of these topics or of this broker, including the source of
    each value."""

    def build_request_message(version: int, m: Any) -> Any:
        more = {"include_documentation": False} if version >= _CONFIGS_WITH_DOCUMENTATION else {}
        return m.DescribeConfigsRequest(
            resources=tuple(
                m.DescribeConfigsResource(
                    resource_type=resource_type, resource_name=name, configuration_keys=None
                )
                for name in names
            ),
            include_synonyms=False,
            **more,
        )

    return RequestBuilder(api="describe_configs", low=1, high=4, build=build_request_message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """Configs of a topic to set, and overrides to remove. All other configs remain unchanged."""

    set: Mapping[str, str] = field(default_factory=dict)
    delete: Collection[str] = ()


def build_alter_topic_configs_request(changes: Mapping[str, ConfigChange]) -> RequestBuilder:
    """Build a request that changes single configs of topics (KIP-339). Send it to any broker, which
    forwards it."""

    def build_request_message(_: int, m: Any) -> Any:
        return m.IncrementalAlterConfigsRequest(
            resources=tuple(
                m.AlterConfigsResource(
                    resource_type=TOPIC_RESOURCE,
                    resource_name=name,
                    configs=tuple(
                        m.AlterableConfig(name=key, config_operation=operation, value=value)
                        for key, operation, value in _list_config_operations(change)
                    ),
                )
                for name, change in changes.items()
            ),
            validate_only=False,
        )

    return RequestBuilder(
        api="incremental_alter_configs", low=0, high=1, build=build_request_message
    )


def _list_config_operations(change: ConfigChange) -> list[tuple[str, int, str | None]]:
    """Return the name, operation code and value of each config change."""
    values = [(name, _SET_CONFIG, value) for name, value in sorted(change.set.items())]
    return [*values, *((name, _DELETE_CONFIG, None) for name in sorted(change.delete))]
