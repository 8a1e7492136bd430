"""Flow keys that MirrorMaker 2 does not have, each declared once.

Each declaration defines the key's option in `clusters.yaml`, its key in `mm2.properties`, its
definition and validation in connector configurations, its text in the configuration reference and
the value of its field in `Flow`. Java ignores these keys, so both products can read the same file.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from connect_runtime.api import config_types
from connect_runtime.api.config_def import ConfigDef, Importance, Type
from connect_runtime.api.config_validators import Lambda, Range, Validator, ValidString
from connect_runtime.base.bounded_regex import PatternError
from mm2 import unreachable_cluster
from mm2.config import config_value_types
from mm2.config.config_value_types import TopicThrottleListType
from mm2.config.yaml_section_reader import ConfigOption
from mm2.topics import flow_config
from mm2.topics.flow_config import (
    DeliveryMode,
    SourceGapAction,
    StartPosition,
    TargetTopicAccess,
    TopicThrottle,
)

T = TypeVar("T")
MIN_BUFFER_BYTES, MAX_BUFFER_BYTES = 1024 * 1024, 64 * 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionKey(Generic[T]):
    """A flow key that only mm2 has."""

    option: ConfigOption[T]
    """Name, type and default of the key in `clusters.yaml`."""
    help: str
    """Description of the key for the configuration reference, in Markdown."""
    type: Type
    """Type of the key in connector configurations."""
    connector_default: Any
    """Default in connector configurations, as a parsed value; None if the key has no default
    there."""
    validator: Validator | None = None
    importance: Importance = Importance.LOW
    is_choice: bool = False
    """True if the key accepts only a few names, in upper or lower case."""
    flow_field: str = ""
    """Name of the field of `Flow` that contains the key's value. "" if the field depends on other
    keys too; `flows_section` and `mirror_connector_config` then determine it."""
    build: Callable[[Any], Any] | None = None
    """Converts a parsed value to the value of the field of `Flow`; None if no conversion is
    needed."""

    @property
    def name(self) -> str:
        """The key, such as `buffer.memory`."""
        return self.option.name

    def add_to_config_def(self, definition: ConfigDef) -> None:
        """Add the key to the definition of a connector's configuration."""
        definition.define(
            self.name,
            self.type,
            self.help.replace("`", ""),
            default=self.connector_default,
            validator=self.validator,
            importance=self.importance,
        )


def create_parsing_validator(parse: Callable[[str], object], allowed: str) -> Validator:
    """Create a validator for a string or a list of strings: `parse` must accept each string. None
    is valid. `allowed` describes the allowed values in error messages."""

    def ensure_parsable(name: str, value: Any) -> None:
        if value is None:
            return
        for text in value if isinstance(value, list) else [value]:
            try:
                parse(text)
            except PatternError as error:
                raise config_types.build_invalid_value_error(name, text, str(error)) from None
            except ValueError:
                raise config_types.build_invalid_value_error(
                    name, text, f"allowed: {allowed}"
                ) from None

    return Lambda(ensure_parsable, allowed)


def _declare_integer_key(
    name: str, help_text: str, *, least: int, most: int, default: int, flow_field: str
) -> ExtensionKey[int]:
    return ExtensionKey(
        option=ConfigOption(
            name=name, kind=config_value_types.integer_type(least, most), default=str(default)
        ),
        help=help_text,
        type=Type.LONG,
        connector_default=default,
        validator=Range(at_least=least, at_most=most),
        flow_field=flow_field,
    )


def _declare_choice_key(
    name: str, help_text: str, values: type[enum.Enum], *, default: enum.Enum, flow_field: str
) -> ExtensionKey[str]:
    names = tuple(each.value for each in values)
    return ExtensionKey(
        option=ConfigOption(
            name=name, kind=config_value_types.choice_type(*names), default=default.value
        ),
        help=help_text,
        type=Type.STRING,
        connector_default=default.value,
        validator=ValidString(*names),
        importance=Importance.MEDIUM,
        is_choice=True,
        flow_field=flow_field,
        build=values,
    )


START: ExtensionKey[StartPosition] = ExtensionKey(
    option=ConfigOption(
        name="start", kind=config_value_types.start_position_type(), default="earliest"
    ),
    help=(
        "Where replication of a topic starts if no progress is recorded. Partitions that are "
        "added later start at their first record."
    ),
    type=Type.STRING,
    connector_default=None,
    validator=create_parsing_validator(
        config_value_types.parse_start_position, config_value_types.START_ALLOWED
    ),
    importance=Importance.MEDIUM,
)
"""Start position of new partitions. Without this key, a connector configuration uses the source
consumer's `auto.offset.reset`."""
DELIVERY = _declare_choice_key(
    "delivery",
    "`auto`: exactly once; transactions are used only for records older than half of the target's "
    "`producer.id.expiration.ms`. `transactional`: exactly once, always with transactions. "
    "`at-least-once`: duplicates are possible because older writers are not fenced.",
    DeliveryMode,
    default=DeliveryMode.AUTO,
    flow_field="delivery",
)
ON_SOURCE_GAP = _declare_choice_key(
    "on.source.gap",
    "What to do when the source deleted records before they were replicated: `continue` "
    "continues after the gap and records an incident; `fail` halts the partition.",
    SourceGapAction,
    default=SourceGapAction.CONTINUE,
    flow_field="on_source_gap",
)
_ACCESS_NAMES = tuple(each.value for each in TargetTopicAccess)
TARGET_TOPICS: ExtensionKey[str] = ExtensionKey(
    option=ConfigOption(
        name="target.topics",
        kind=config_value_types.choice_type(*_ACCESS_NAMES),
        default=TargetTopicAccess.EXCLUSIVE.value,
    ),
    help=(
        "`exclusive`: only this flow writes to its mirror topics; a record from any other "
        "producer halts the partition. `shared`: local producers may also write to them. The "
        "default is `shared` with IdentityReplicationPolicy."
    ),
    type=Type.STRING,
    connector_default=None,
    validator=Lambda(
        lambda name, value: (
            None if value is None else ValidString(*_ACCESS_NAMES).ensure_valid(name, value)
        ),
        "exclusive or shared",
    ),
    importance=Importance.MEDIUM,
    is_choice=True,
)
THROTTLE: ExtensionKey[int] = ExtensionKey(
    option=ConfigOption(name="throttle", kind=config_value_types.byte_rate_type(), default=None),
    help="Rate limit of the whole flow, in bytes per second read from the source.",
    type=Type.STRING,
    connector_default=None,
    validator=create_parsing_validator(
        config_value_types.parse_byte_rate, config_value_types.RATE_ALLOWED
    ),
)
TOPIC_THROTTLES: ExtensionKey[tuple[TopicThrottle, ...]] = ExtensionKey(
    option=ConfigOption(name="throttle.topics", kind=TopicThrottleListType(), default=()),
    help=(
        "Rate limits of topics, in bytes per second: `EXPRESSION=RATE`. The first matching "
        "expression applies."
    ),
    type=Type.LIST,
    connector_default=[],
    validator=create_parsing_validator(
        config_value_types.parse_topic_throttle, "EXPRESSION=RATE, such as orders.*=5MB"
    ),
)
BUFFER_MEMORY = _declare_integer_key(
    "buffer.memory",
    "Maximum bytes that one copy process buffers between source and target, and the maximum "
    "decompressed size of a batch that must be decoded. Decoding such a batch can briefly require "
    "four times as much memory.",
    least=MIN_BUFFER_BYTES,
    most=MAX_BUFFER_BYTES,
    default=flow_config.DEFAULT_BUFFER_BYTES,
    flow_field="buffer_bytes",
)
OFFSET_MAP_BYTES = _declare_integer_key(
    "offset.map.bytes",
    "Maximum bytes of the offset map per partition. When the limit is reached, old entries are "
    "thinned out, and their offsets are translated to earlier offsets.",
    least=MIN_BUFFER_BYTES,
    most=MAX_BUFFER_BYTES,
    default=flow_config.DEFAULT_OFFSET_MAP_BYTES,
    flow_field="offset_map_bytes_max",
)
UNREACHABLE_AFTER = _declare_integer_key(
    "unreachable.after.seconds",
    "Time without a response after which a broker counts as unreachable. The lag of its "
    "partitions is then unknown, and the flow is unhealthy.",
    least=unreachable_cluster.MIN_UNREACHABLE_AFTER_S,
    most=unreachable_cluster.MAX_UNREACHABLE_AFTER_S,
    default=flow_config.DEFAULT_UNREACHABLE_AFTER_S,
    flow_field="unreachable_after_s",
)

ALL: tuple[ExtensionKey[Any], ...] = (
    START,
    DELIVERY,
    ON_SOURCE_GAP,
    TARGET_TOPICS,
    THROTTLE,
    TOPIC_THROTTLES,
    BUFFER_MEMORY,
    OFFSET_MAP_BYTES,
    UNREACHABLE_AFTER,
)
"""All keys, in the order of the configuration reference."""
NAMES = frozenset(each.name for each in ALL)


def build_single_key_flow_fields(read: Callable[[ExtensionKey[Any]], Any]) -> dict[str, Any]:
    """Return those fields of `Flow` that depend on one key only. `read` returns the value of a
    key."""
    found = {}
    for key in ALL:
        if key.flow_field:
            value = read(key)
            found[key.flow_field] = value if key.build is None else key.build(value)
    return found
