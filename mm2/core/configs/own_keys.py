"""Keys of a connector that Java's does not know, and ignores: a file with them works there, too.

`OWN` defines them for the mirror of topics; texts are checked by `own_values`. `ENGINE` and keys
that begin with `SPARK_PREFIX` say where the data pipeline runs on a plain Connect worker; most of
the latter only the worker's own properties may have (`engine_settings`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from connect_runtime.api import config_def, config_types, config_validators
from connect_runtime.base import user_pattern
from mm2.core import flows, reachability
from mm2.core.configs import own_values

Type = config_def.Type
MEDIUM, LOW = config_def.Importance.MEDIUM, config_def.Importance.LOW

START = "start"
TARGET_TOPICS = "target.topics"
DELIVERY = "delivery"
ON_SOURCE_GAP = "on.source.gap"
BUFFER_MEMORY = "buffer.memory"
OFFSET_MAP_BYTES = "offset.map.bytes"
UNREACHABLE_AFTER = "unreachable.after.seconds"
THROTTLE = "throttle"
TOPIC_THROTTLES = "throttle.topics"
JAVA_STOPPED = "java.stopped.cleanly"
LIVE_THROTTLE = "live.throttle"
LIVE_TOPIC_THROTTLE = "live.throttle.topic."
LIVE_PAUSED_TOPIC = "live.paused.topic."
LIVE = (LIVE_THROTTLE, LIVE_PAUSED_TOPIC)
"""What keys begin with that operators set while a flow runs: no file has these, and tasks take them
up as they run. Each topic has a key of its own (its name follows), so that two who set something of
two topics at once undo nothing of each other."""
ENGINE = "mm2.engine"
SPARK_PREFIX = "mm2.spark."
BUFFER_LEAST, BUFFER_MOST = 1024 * 1024, 64 * 1024**3


def _read(read: Callable[[str], object], allowed: str) -> config_validators.Validator:
    def check(name: str, value: Any) -> None:
        if value is None:
            return
        for text in value if isinstance(value, list) else [value]:
            try:
                read(text)
            except user_pattern.PatternError as error:
                raise config_types.invalid(name, text, str(error)) from None
            except ValueError:
                raise config_types.invalid(name, text, f"allowed: {allowed}") from None

    return config_validators.Lambda(check, allowed)


def _one_of(values: type[flows.Delivery | flows.OnSourceGap | flows.TargetTopics]) -> Any:
    return config_validators.ValidString(*(each.value for each in values))


OWN = (
    config_def.ConfigDef()
    .define(
        START,
        Type.STRING,
        "Where partitions begin that were never mirrored; null: as auto.offset.reset says.",
        default=None,
        validator=_read(own_values.read_start, own_values.START_ALLOWED),
        importance=MEDIUM,
    )
    .define(
        TARGET_TOPICS,
        Type.STRING,
        "Who may write to mirror topics: exclusive or shared; null: shared where the policy does "
        "not rename topics.",
        default=None,
        validator=config_validators.Lambda(
            lambda name, value: (
                None if value is None else _one_of(flows.TargetTopics).ensure_valid(name, value)
            ),
            "exclusive or shared",
        ),
        importance=MEDIUM,
    )
    .define(
        DELIVERY,
        Type.STRING,
        "How records are copied: auto, transactional or at-least-once.",
        default=flows.Delivery.AUTO.value,
        validator=_one_of(flows.Delivery),
        importance=MEDIUM,
    )
    .define(
        ON_SOURCE_GAP,
        Type.STRING,
        "What follows when the source deleted records before they were copied: continue or fail.",
        default=flows.OnSourceGap.CONTINUE.value,
        validator=_one_of(flows.OnSourceGap),
        importance=MEDIUM,
    )
    .define(
        BUFFER_MEMORY,
        Type.LONG,
        "Most bytes that one copy process buffers between source and target, and the largest size "
        "that one batch may decompress to if it must be decoded.",
        default=flows.DEFAULT_BUFFER_BYTES,
        validator=config_validators.Range(at_least=BUFFER_LEAST, at_most=BUFFER_MOST),
        importance=LOW,
    )
    .define(
        OFFSET_MAP_BYTES,
        Type.LONG,
        "Bytes of one partition's offset map at most: beyond it what is old is translated less "
        "exactly.",
        default=flows.DEFAULT_MAP_BYTES,
        validator=config_validators.Range(at_least=BUFFER_LEAST, at_most=BUFFER_MOST),
        importance=LOW,
    )
    .define(
        UNREACHABLE_AFTER,
        Type.INT,
        "Seconds without an answer after which a broker counts as unreachable: the lag of its "
        "partitions is then unknown.",
        default=flows.DEFAULT_UNREACHABLE_AFTER_S,
        validator=config_validators.Range(
            at_least=reachability.LEAST_S, at_most=reachability.MOST_S
        ),
        importance=LOW,
    )
    .define(
        THROTTLE,
        Type.STRING,
        "Bytes per second of the whole flow at most, as the source sends them; null: no limit.",
        default=None,
        validator=_read(own_values.read_rate, own_values.RATE_ALLOWED),
        importance=LOW,
    )
    .define(
        TOPIC_THROTTLES,
        Type.LIST,
        "The same for each topic that matches: EXPRESSION=RATE, the first counts.",
        default=[],
        validator=_read(own_values.read_topic_budget, "EXPRESSION=RATE, such as orders.*=5MB"),
        importance=LOW,
    )
    .define(
        JAVA_STOPPED,
        Type.BOOLEAN,
        "Workers of Java that ran tasks of this have ended for certain: what they may still send "
        "is not waited for. To be taken out again before Java has it back.",
        default=False,
        importance=LOW,
    )
    .define(
        LIVE_THROTTLE,
        Type.STRING,
        "Instead of throttle, set by an operator; none: no limit.",
        default=None,
        validator=_read(own_values.read_limit, own_values.LIMIT_ALLOWED),
        importance=LOW,
    )
    .define(
        ENGINE,
        Type.STRING,
        "Where the copies run: in Spark's processes, or inline in the worker's.",
        default="spark",
        validator=config_validators.ValidString("spark", "inline"),
        importance=LOW,
    )
)
