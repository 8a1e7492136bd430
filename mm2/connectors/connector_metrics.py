"""MirrorMaker 2's metrics of source and checkpoint tasks, named after Java's JMX attributes.

Java exposes them as `kafka.connect.mirror:type=MirrorSourceConnector,source=...,target=...`
("legacy") and as `kafka.connect:type=plugins,connector=...,task=...,source=...` ("new",
KIP-1280); `metric.names.formats` selects one or both. Here they are

    kafka_connect_mirror_mirrorsourceconnector_record_count{source="...",target="...",...}
    kafka_connect_plugins_record_count{connector="...",task="...",source="...",...}

which is how Strimzi's reporter and its JMX exporter rules name Java's metrics. `topic` is the
topic on the target. Sources: MirrorSourceLegacyMetrics, MirrorSourceMetrics,
MirrorCheckpointLegacyMetrics, MirrorCheckpointMetrics of Kafka 4.3. Metrics that Java lacks
(`mm2_partition_lag_records`, `mm2_partition_lag_seconds`, `mm2_partition_stopped`) are shown in
either format.

Samples cover two windows of 30 s, as in Java. Unlike Java's, a value without `-max`, `-min` or
`-avg` becomes NaN when nothing was observed in that time, so an old value does not look like a
current lag. The task's thread records; any thread reads.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.base.metrics import Metric, MetricFamily, MetricKind
from connect_runtime.base.timing import Clock
from connect_runtime.base.windowed_stats import SampleWindows, WindowedStat
from mm2.config.mirror_connector_config import MirrorConnectorConfig
from mm2.copier.control_messages import PartitionGauge
from mm2.formats.mm2_records import CheckpointKey
from mm2.replication import latency
from mm2.replication.latency import RecordAges
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.setup import PartitionSetup

_SAMPLING = SampleWindows()


@dataclass(slots=True)
class WindowedTimes:
    """Milliseconds of one kind; of many at once the youngest counts as the last."""

    _newest_ms: float = math.nan
    _sampled: WindowedStat = field(default_factory=lambda: WindowedStat(_SAMPLING))

    def observe(self, found: RecordAges, now_s: float) -> None:
        if found:
            self._newest_ms = found.min_ms
            self._sampled.observe_many(
                found.records,
                found.sum_ms,
                least=found.min_ms,
                most=found.max_ms,
                now_s=now_s,
            )

    def numbers(self, name: str, now_s: float) -> dict[str, float]:
        figures = self._sampled.figures(now_s)
        return {
            name: math.nan if math.isnan(figures.avg) else self._newest_ms,
            f"{name}-max": figures.max,
            f"{name}-min": figures.min,
            f"{name}-avg": figures.avg,
        }


def compute_checkpoint_attributes(latencies: WindowedTimes, now_s: float) -> dict[str, float]:
    """The attributes of `mirror_metrics.CHECKPOINT`."""
    return latencies.numbers("checkpoint-latency-ms", now_s)


@dataclass(slots=True)
class PartitionStatistics:
    """Of one source partition, over all copies that the task had of it.

    Invariant: `_records`, `_bytes` are what the newest copy has told of itself. Every copy's first
    gauge comes before it has copied anything, so one that counts fewer is of another copy.
    """

    _counted: WindowedStat = field(default_factory=lambda: WindowedStat(_SAMPLING))
    _sized: WindowedStat = field(default_factory=lambda: WindowedStat(_SAMPLING))
    _ages: WindowedTimes = field(default_factory=WindowedTimes)
    _latencies: WindowedTimes = field(default_factory=WindowedTimes)
    _records: int = 0
    _bytes: int = 0
    _behind: tuple[int, int, int] = (-1, -1, -1)
    stopped_by: str = ""
    """Why it is not copied until somebody acts; "" where that is not so."""

    def observe(self, gauge: PartitionGauge, now_s: float) -> None:
        """Each gauge of the partition once, in their order."""
        if gauge.records < self._records:
            self._records = self._bytes = 0
        if gauge.records > self._records:
            self._counted.observe(gauge.records - self._records, now_s)
            self._sized.observe(gauge.bytes - self._bytes, now_s)
        self._records, self._bytes = gauge.records, gauge.bytes
        self._ages.observe(gauge.arrived, now_s)
        self._latencies.observe(gauge.stored, now_s)
        self._behind = (gauge.copied_to, gauge.source_end, gauge.oldest_ms)
        self.stopped_by = gauge.cause if gauge.phase == PartitionPhase.STOPPED.value else ""

    def numbers(self, now_s: float) -> dict[str, float]:
        """The attributes of `mirror_metrics.SOURCE`."""
        counted, sized = self._counted.figures(now_s), self._sized.figures(now_s)
        return {
            "record-count": counted.total,
            "record-rate": counted.rate,
            **self._ages.numbers("record-age-ms", now_s),
            "byte-count": sized.total,
            "byte-rate": sized.rate,
            **self._latencies.numbers("replication-latency-ms", now_s),
        }

    @property
    def lag_records(self) -> int | None:
        """None as long as the copy has not seen both ends."""
        copied_to, source_end, _ = self._behind
        return None if copied_to < 0 or source_end < 0 else max(0, source_end - copied_to)

    def lag_s(self, wall_ms: int) -> float | None:
        """Never negative; None while unknown."""
        oldest_ms = self._behind[2]
        if oldest_ms >= 0:
            age_ms = latency.compute_age_ms(oldest_ms, wall_ms)
            return None if age_ms is None else age_ms / 1000.0
        return 0.0 if self.lag_records == 0 else None


LEGACY_FORMAT = "legacy"
NEW_FORMAT = "new"
_LEGACY_PREFIX = "kafka_connect_mirror"
_NEW_PREFIX = "kafka_connect_plugins"
_TASK_LABELS = ("connector", "task")
_FLOW_LABELS = ("source", "target")
_PARTITION_LABELS = ("topic", "partition")


def _windowed_attributes(name: str, what: str) -> dict[str, str]:
    return {
        name: f"{what} (ms), of the last one; NaN where there was none lately.",
        f"{name}-max": f"{what} (ms), at most, lately.",
        f"{name}-min": f"{what} (ms), at least, lately.",
        f"{name}-avg": f"{what} (ms), on average, lately.",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class JmxMetricGroup:
    """Java's `type`, the names of its tags in Java's order, and what each attribute means."""

    name: str
    tags: tuple[str, ...]
    attributes: Mapping[str, str]


SOURCE_METRICS = JmxMetricGroup(
    name="MirrorSourceConnector",
    tags=(*_FLOW_LABELS, *_PARTITION_LABELS),
    attributes={
        "record-count": "Records that the target has acknowledged.",
        "record-rate": "Records that the target has acknowledged, a second.",
        **_windowed_attributes("record-age-ms", "Age of records when they came from the source"),
        "byte-count": "Bytes of record batches, as compressed, that the target has acknowledged.",
        "byte-rate": "Bytes of record batches, as compressed, acknowledged a second.",
        **_windowed_attributes(
            "replication-latency-ms", "Age of records when the target acknowledged them"
        ),
    },
)
"""Java counts the bytes of uncompressed values when they are polled; ours stay as they came, so
here it is whole batches."""

CHECKPOINT_METRICS = JmxMetricGroup(
    name="MirrorCheckpointConnector",
    tags=(*_FLOW_LABELS, "group", *_PARTITION_LABELS),
    attributes=_windowed_attributes(
        "checkpoint-latency-ms", "Time from making a checkpoint until the target acknowledged it"
    ),
)

LAG_RECORDS = Metric(
    name="mm2_partition_lag_records",
    kind=MetricKind.GAUGE,
    help="Source last stable offset minus next offset to copy, where both are known; an upper "
    "bound where the log has gaps.",
    unit="records",
    labels=SOURCE_METRICS.tags,
)
LAG_SECONDS = Metric(
    name="mm2_partition_lag_seconds",
    kind=MetricKind.GAUGE,
    help="Age of the oldest record that is not copied yet, 0 when there is none.",
    unit="seconds",
    labels=SOURCE_METRICS.tags,
)


PARTITION_STOPPED = Metric(
    name="mm2_partition_stopped",
    kind=MetricKind.GAUGE,
    help="1 where a partition is not copied until somebody acts; the label says why.",
    labels=(*SOURCE_METRICS.tags, "cause"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsOwner:
    """The task that measures: of which flow, and how its metrics are to be named (`formats`)."""

    task: ConnectorTaskId
    source: str
    target: str
    formats: tuple[str, ...]


AttributeValues = Mapping[tuple[str, ...], Mapping[str, float]]
"""What each attribute is, by the values of the group's tags behind source and target."""


def declare_metrics(group: JmxMetricGroup, form: str) -> dict[str, Metric]:
    """By attribute, as `form` names them."""
    assert form in (LEGACY_FORMAT, NEW_FORMAT), form
    prefix = f"{_LEGACY_PREFIX}_{group.name.lower()}" if form == LEGACY_FORMAT else _NEW_PREFIX
    return {
        attribute: Metric(
            name=f"{prefix}_{attribute}".replace("-", "_"),
            kind=MetricKind.GAUGE,
            help=meaning,
            labels=group.tags if form == LEGACY_FORMAT else (*_TASK_LABELS, *group.tags),
        )
        for attribute, meaning in group.attributes.items()
    }


_DECLARED_METRICS = {
    (group.name, form): declare_metrics(group, form)
    for group in (SOURCE_METRICS, CHECKPOINT_METRICS)
    for form in (LEGACY_FORMAT, NEW_FORMAT)
}


def build_families(
    group: JmxMetricGroup, owner: MetricsOwner, rows: AttributeValues
) -> list[MetricFamily]:
    """In every format that is wanted, one after the other."""
    found = []
    for form in owner.formats:
        whose = _owner_labels(owner, form)
        named = [((*whose, *about), numbers) for about, numbers in rows.items()]
        for attribute, metric in _DECLARED_METRICS[group.name, form].items():
            series = {labels: numbers[attribute] for labels, numbers in named}
            found.append(MetricFamily(metric=metric, series=series))
    return found


def build_own_family(
    metric: Metric, owner: MetricsOwner, found: Mapping[tuple[str, ...], float]
) -> MetricFamily:
    """`found`: by the labels behind source and target."""
    series = {(owner.source, owner.target, *about): value for about, value in found.items()}
    return MetricFamily(metric=metric, series=series)


def _owner_labels(owner: MetricsOwner, form: str) -> tuple[str, ...]:
    flow = (owner.source, owner.target)
    return flow if form == LEGACY_FORMAT else (owner.task.connector, str(owner.task.task), *flow)


def build_metrics_owner(task: ConnectorTaskId, config: MirrorConnectorConfig) -> MetricsOwner:
    """Whose metrics they are, as their labels say."""
    return MetricsOwner(
        task=task, source=config.source, target=config.target, formats=config.metric_formats
    )


class SourceMetrics:
    """Of a source task, by mirror partition: shown from the start, and as long as it is the
    task's."""

    def __init__(
        self,
        about: MetricsOwner,
        partitions: Iterable[PartitionSetup] = (),
        *,
        clock: Clock,
    ) -> None:
        self._about = about
        self._clock = clock
        self._lock = threading.Lock()
        self._figures: dict[tuple[str, ...], PartitionStatistics] = {}
        self.assigned(partitions)

    def assigned(self, partitions: Iterable[PartitionSetup]) -> None:
        """These and no others are the task's; those that were go on as they are."""
        with self._lock:
            known = self._figures
            self._figures = {
                label: known.get(label) or PartitionStatistics()
                for label in map(_partition_labels, partitions)
            }

    def observe(self, where: PartitionSetup, gauge: PartitionGauge) -> None:
        """Every gauge that a copy sends, once, in their order; of others nothing is kept."""
        with self._lock:
            figures = self._figures.get(_partition_labels(where))
            if figures is not None:
                figures.observe(gauge, self._clock.now_s())

    def families(self) -> list[MetricFamily]:
        """As of now; any thread."""
        with self._lock:
            now_s, wall_ms = self._clock.now_s(), self._clock.wall_ms()
            every = self._figures.items()
            rows = {label: each.numbers(now_s) for label, each in every}
            records = {label: each.lag_records for label, each in every}
            seconds = {label: each.lag_s(wall_ms) for label, each in every}
            stopped = {(*label, each.stopped_by): 1.0 for label, each in every if each.stopped_by}
        return [
            *build_families(SOURCE_METRICS, self._about, rows),
            build_own_family(LAG_RECORDS, self._about, _drop_unknown_values(records)),
            build_own_family(LAG_SECONDS, self._about, _drop_unknown_values(seconds)),
            build_own_family(PARTITION_STOPPED, self._about, stopped),
        ]


class CheckpointMetrics:
    """Of a checkpoint task, by group and mirror partition: shown from its first checkpoint on."""

    def __init__(self, about: MetricsOwner, *, clock: Clock) -> None:
        self._about = about
        self._clock = clock
        self._lock = threading.Lock()
        self._latencies: dict[tuple[str, ...], WindowedTimes] = {}

    def acknowledged(self, what: CheckpointKey, latency_ms: int) -> None:
        """The target has a checkpoint, so long after it was made; any thread."""
        label = (what.group, what.partition.topic, str(what.partition.partition))
        one = RecordAges(1, latency_ms, latency_ms, latency_ms)
        with self._lock:
            found = self._latencies.setdefault(label, WindowedTimes())
            found.observe(one, self._clock.now_s())

    def families(self) -> list[MetricFamily]:
        """As of now; any thread."""
        with self._lock:
            now_s = self._clock.now_s()
            rows = {
                label: compute_checkpoint_attributes(each, now_s)
                for label, each in self._latencies.items()
            }
        return build_families(CHECKPOINT_METRICS, self._about, rows)


def _partition_labels(where: PartitionSetup) -> tuple[str, ...]:
    return (where.remote_topic, str(where.partition))


def _drop_unknown_values(
    found: Mapping[tuple[str, ...], float | None],
) -> dict[tuple[str, ...], float]:
    return {label: value for label, value in found.items() if value is not None}
