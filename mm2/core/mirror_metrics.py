"""MM2's metrics by Java's names: what they are called, and in which of its two ways.

Java shows an attribute of `kafka.connect.mirror:type=MirrorSourceConnector,source=…,target=…`
and so on ("legacy"), or of `kafka.connect:type=plugins,connector=…,task=…,source=…` ("new",
KIP-1280); `metric.names.formats` says which, or both. Here they are

    kafka_connect_mirror_mirrorsourceconnector_record_count{source="…",target="…",topic="…",…}
    kafka_connect_plugins_record_count{connector="…",task="…",source="…",target="…",…}

which is how Strimzi's reporter and its rules for the JMX exporter name Java's, so that dashboards
find their series. `topic` is the topic on the target. Classes followed: MirrorSourceLegacyMetrics,
MirrorSourceMetrics, MirrorCheckpointLegacyMetrics, MirrorCheckpointMetrics of Kafka 4.3.

What Java does not have, and its users work out in other ways or never learn, has names of ours
(`LAG_RECORDS`, `LAG_SECONDS`, `STOPPED`) and is shown in either format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.base import ids, metrics

LEGACY = "legacy"
NEW = "new"
_LEGACY_PREFIX = "kafka_connect_mirror"
_NEW_PREFIX = "kafka_connect_plugins"
_TASK = ("connector", "task")
_FLOW = ("source", "target")
_PLACE = ("topic", "partition")


def _windowed(name: str, what: str) -> dict[str, str]:
    return {
        name: f"{what} (ms), of the last one; NaN where there was none lately.",
        f"{name}-max": f"{what} (ms), at most, lately.",
        f"{name}-min": f"{what} (ms), at least, lately.",
        f"{name}-avg": f"{what} (ms), on average, lately.",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Java's `type`, the names of its tags in Java's order, and what each attribute means."""

    name: str
    tags: tuple[str, ...]
    attributes: Mapping[str, str]


SOURCE = Group(
    name="MirrorSourceConnector",
    tags=(*_FLOW, *_PLACE),
    attributes={
        "record-count": "Records that the target has acknowledged.",
        "record-rate": "Records that the target has acknowledged, a second.",
        **_windowed("record-age-ms", "Age of records when they came from the source"),
        "byte-count": "Bytes of record batches, as compressed, that the target has acknowledged.",
        "byte-rate": "Bytes of record batches, as compressed, acknowledged a second.",
        **_windowed("replication-latency-ms", "Age of records when the target acknowledged them"),
    },
)
"""Java counts the bytes of uncompressed values when they are polled; ours stay as they came, so
here it is whole batches."""

CHECKPOINT = Group(
    name="MirrorCheckpointConnector",
    tags=(*_FLOW, "group", *_PLACE),
    attributes=_windowed(
        "checkpoint-latency-ms", "Time from making a checkpoint until the target acknowledged it"
    ),
)

LAG_RECORDS = metrics.Metric(
    name="mm2_partition_lag_records",
    kind=metrics.Kind.GAUGE,
    help="Source last stable offset minus next offset to copy, where both are known; an upper "
    "bound where the log has gaps.",
    unit="records",
    labels=SOURCE.tags,
)
LAG_SECONDS = metrics.Metric(
    name="mm2_partition_lag_seconds",
    kind=metrics.Kind.GAUGE,
    help="Age of the oldest record that is not copied yet, 0 when there is none.",
    unit="seconds",
    labels=SOURCE.tags,
)


STOPPED = metrics.Metric(
    name="mm2_partition_stopped",
    kind=metrics.Kind.GAUGE,
    help="1 where a partition is not copied until somebody acts; the label says why.",
    labels=(*SOURCE.tags, "cause"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The task that measures: of which flow, and how its metrics are to be named (`formats`)."""

    task: ids.ConnectorTaskId
    source: str
    target: str
    formats: tuple[str, ...]


Rows = Mapping[tuple[str, ...], Mapping[str, float]]
"""What each attribute is, by the values of the group's tags behind source and target."""


def declared(group: Group, form: str) -> dict[str, metrics.Metric]:
    """By attribute, as `form` names them."""
    assert form in (LEGACY, NEW), form
    prefix = f"{_LEGACY_PREFIX}_{group.name.lower()}" if form == LEGACY else _NEW_PREFIX
    return {
        attribute: metrics.Metric(
            name=f"{prefix}_{attribute}".replace("-", "_"),
            kind=metrics.Kind.GAUGE,
            help=meaning,
            labels=group.tags if form == LEGACY else (*_TASK, *group.tags),
        )
        for attribute, meaning in group.attributes.items()
    }


_DECLARED = {
    (group.name, form): declared(group, form)
    for group in (SOURCE, CHECKPOINT)
    for form in (LEGACY, NEW)
}


def families(group: Group, owner: Owner, rows: Rows) -> list[metrics.Family]:
    """In every format that is wanted, one after the other."""
    found = []
    for form in owner.formats:
        whose = _labels(owner, form)
        named = [((*whose, *about), numbers) for about, numbers in rows.items()]
        for attribute, metric in _DECLARED[group.name, form].items():
            series = {labels: numbers[attribute] for labels, numbers in named}
            found.append(metrics.Family(metric=metric, series=series))
    return found


def of_ours(
    metric: metrics.Metric, owner: Owner, found: Mapping[tuple[str, ...], float]
) -> metrics.Family:
    """`found`: by the labels behind source and target."""
    series = {(owner.source, owner.target, *about): value for about, value in found.items()}
    return metrics.Family(metric=metric, series=series)


def _labels(owner: Owner, form: str) -> tuple[str, ...]:
    flow = (owner.source, owner.target)
    return flow if form == LEGACY else (owner.task.connector, str(owner.task.task), *flow)
