"""MirrorMaker 2's metrics of source and checkpoint tasks, named after Java's JMX attributes.

Java exposes these metrics as
`kafka.connect.mirror:type=MirrorSourceConnector,source=...,target=...` ("legacy") and as
`kafka.connect:type=plugins,connector=...,task=...,source=...` ("new", KIP-1280);
`metric.names.formats` selects one or both. Here the metrics are named

- kafka_connect_mirror_mirrorsourceconnector_record_count{source="...",target="...",...}
- kafka_connect_plugins_record_count{connector="...",task="...",source="...",...}

as in Strimzi's reporter and its JMX exporter rules. `topic` is the topic on the target. The Java
classes are MirrorSourceLegacyMetrics, MirrorSourceMetrics, MirrorCheckpointLegacyMetrics and
MirrorCheckpointMetrics of Kafka 4.3. Metrics that Java does not have (`mm2_partition_lag_records`,
`mm2_partition_lag_seconds`, `mm2_partition_stopped`) are exposed in either format.

Statistics cover two sample windows of 30 s, as in Java. Unlike in Java, an attribute without the
suffix `-max`, `-min` or `-avg` becomes NaN if nothing was observed in the windows, so that an old
value is not mistaken for the current lag. The task's thread records values; any thread may read
them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.base.metrics import Metric, MetricFamily, MetricKind
from connect_runtime.base.windowed_stats import SampleWindows, WindowedStat
from mm2.config.mirror_connector_config import MirrorConnectorConfig
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.formats.mirrormaker2_records import CheckpointKey
from mm2.replication import partition_lag
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.replication_latency import RecordAges

_SAMPLING = SampleWindows()


@dataclass(slots=True)
class WindowedLatencies:
    """Statistics of a latency in milliseconds, over the last 60 s (two sample windows). The current
    value is the lowest latency in the latest report, which is that of the newest record."""

    _newest_ms: float = math.nan
    _sampled: WindowedStat = field(default_factory=lambda: WindowedStat(_SAMPLING))

    def observe_record_ages(self, ages: RecordAges, now_s: float) -> None:
        if ages:
            self._newest_ms = ages.min_ms
            self._sampled.observe_many(
                ages.records,
                ages.sum_ms,
                minimum=ages.min_ms,
                maximum=ages.max_ms,
                now_s=now_s,
            )

    def compute_attributes(self, name: str, now_s: float) -> dict[str, float]:
        figures = self._sampled.compute_statistics(now_s)
        return {
            name: math.nan if math.isnan(figures.avg) else self._newest_ms,
            f"{name}-max": figures.max,
            f"{name}-min": figures.min,
            f"{name}-avg": figures.avg,
        }


def compute_checkpoint_attributes(latencies: WindowedLatencies, now_s: float) -> dict[str, float]:
    """Compute the values of the JMX attributes that `CHECKPOINT_METRICS` declares."""
    return latencies.compute_attributes("checkpoint-latency-ms", now_s)


@dataclass(slots=True)
class PartitionStatistics:
    """Metrics of one source partition, accumulated over all copy processes of the task.

    Invariant: `_records` and `_bytes` are the counters of the newest copy process. A copy process
    sends its first progress report before it copies a record, so a smaller counter indicates a new
    copy process.
    """

    _record_stats: WindowedStat = field(default_factory=lambda: WindowedStat(_SAMPLING))
    _byte_stats: WindowedStat = field(default_factory=lambda: WindowedStat(_SAMPLING))
    _ages: WindowedLatencies = field(default_factory=WindowedLatencies)
    _latencies: WindowedLatencies = field(default_factory=WindowedLatencies)
    _records: int = 0
    _bytes: int = 0
    _lag_inputs: tuple[int, int, int] = (-1, -1, -1)
    halt_reason: str = ""
    """Halt reason of the partition; "" if it is not halted."""

    def record_progress_report(self, report: PartitionProgressReport, now_s: float) -> None:
        """Record a copy process's progress report of the partition. Call once per report, in
        order."""
        if report.records < self._records:
            self._records = self._bytes = 0
        if report.records > self._records:
            self._record_stats.observe(report.records - self._records, now_s)
            self._byte_stats.observe(report.bytes - self._bytes, now_s)
        self._records, self._bytes = report.records, report.bytes
        self._ages.observe_record_ages(report.arrival_ages, now_s)
        self._latencies.observe_record_ages(report.acknowledged_ages, now_s)
        self._lag_inputs = (report.copied_to, report.source_end, report.oldest_uncopied_ms)
        self.halt_reason = report.cause if report.phase == PartitionPhase.HALTED.value else ""

    def compute_attributes(self, now_s: float) -> dict[str, float]:
        """Compute the values of the JMX attributes that `SOURCE_METRICS` declares."""
        counted, sized = (
            self._record_stats.compute_statistics(now_s),
            self._byte_stats.compute_statistics(now_s),
        )
        return {
            "record-count": counted.total,
            "record-rate": counted.rate,
            **self._ages.compute_attributes("record-age-ms", now_s),
            "byte-count": sized.total,
            "byte-rate": sized.rate,
            **self._latencies.compute_attributes("replication-latency-ms", now_s),
        }

    @property
    def lag_records(self) -> int | None:
        """Number of records that have not been replicated yet; None until both offsets are
        known."""
        copied_to, source_end, _ = self._lag_inputs
        return partition_lag.count_lag_records(source_end=source_end, copied_to=copied_to)

    def compute_lag_s(self, wall_ms: int) -> float | None:
        """Compute the age of the oldest unreplicated record, never negative; None while unknown."""
        lag_ms = partition_lag.compute_lag_ms(
            lag_records=self.lag_records,
            oldest_uncopied_ms=self._lag_inputs[2],
            now_ms=wall_ms,
        )
        return None if lag_ms is None else lag_ms / 1000.0


LEGACY_FORMAT = "legacy"
NEW_FORMAT = "new"
_LEGACY_PREFIX = "kafka_connect_mirror"
_NEW_PREFIX = "kafka_connect_plugins"
_TASK_LABELS = ("connector", "task")
_FLOW_LABELS = ("source", "target")
_PARTITION_LABELS = ("topic", "partition")


def _describe_windowed_attributes(name: str, what: str) -> dict[str, str]:
    return {
        name: f"{what} (ms), last value; NaN if there was none in the last 60 s.",
        f"{name}-max": f"{what} (ms), maximum of the last 60 s.",
        f"{name}-min": f"{what} (ms), minimum of the last 60 s.",
        f"{name}-avg": f"{what} (ms), average of the last 60 s.",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class JmxMetricGroup:
    """A group of Java metrics with the same JMX type."""

    name: str
    """Value of the JMX property `type` of the group in Java."""
    tags: tuple[str, ...]
    """Names of the JMX tags, in Java's order."""
    attributes: Mapping[str, str]
    """Help text of each attribute, by Java attribute name."""


SOURCE_METRICS = JmxMetricGroup(
    name="MirrorSourceConnector",
    tags=(*_FLOW_LABELS, *_PARTITION_LABELS),
    attributes={
        "record-count": "Records that the target has acknowledged.",
        "record-rate": "Records per second that the target has acknowledged.",
        **_describe_windowed_attributes(
            "record-age-ms", "Age of records when fetched from the source"
        ),
        "byte-count": "Bytes of compressed record batches that the target has acknowledged.",
        "byte-rate": "Compressed bytes per second that the target has acknowledged.",
        **_describe_windowed_attributes(
            "replication-latency-ms", "Age of records when the target acknowledged them"
        ),
    },
)
"""Metrics of MirrorSourceTask. Java counts the bytes of uncompressed values when they are polled.
Here batches remain compressed, so the sizes of whole compressed batches are counted."""

CHECKPOINT_METRICS = JmxMetricGroup(
    name="MirrorCheckpointConnector",
    tags=(*_FLOW_LABELS, "group", *_PARTITION_LABELS),
    attributes=_describe_windowed_attributes(
        "checkpoint-latency-ms", "Time from computing a checkpoint to its acknowledgement"
    ),
)

LAG_RECORDS = Metric(
    name="mm2_partition_lag_records",
    kind=MetricKind.GAUGE,
    help=(
        "Source last stable offset minus next offset to replicate, if both are known; an upper "
        "bound if the log has gaps."
    ),
    unit="records",
    labels=SOURCE_METRICS.tags,
)
LAG_SECONDS = Metric(
    name="mm2_partition_lag_seconds",
    kind=MetricKind.GAUGE,
    help="Age of the oldest unreplicated record; 0 if there is none.",
    unit="seconds",
    labels=SOURCE_METRICS.tags,
)


PARTITION_STOPPED = Metric(
    name="mm2_partition_stopped",
    kind=MetricKind.GAUGE,
    help="1 if the partition is halted until an operator acts; the label states the cause.",
    labels=(*SOURCE_METRICS.tags, "cause"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsOwner:
    """The task and the flow to which metrics belong, for the metrics' labels."""

    task: ConnectorTaskId
    source: str
    target: str
    formats: tuple[str, ...]
    """Values of `metric.names.formats`."""


AttributeValues = Mapping[tuple[str, ...], Mapping[str, float]]
"""Values of a metric group. The outer key contains the values of the group's tags without source
and target; the inner key is the attribute name."""


def declare_jmx_metrics(group: JmxMetricGroup, form: str) -> dict[str, Metric]:
    """Return the declarations of a group's metrics by JMX attribute. `form` is the name format,
    `legacy` or `new`."""
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
    (group.name, form): declare_jmx_metrics(group, form)
    for group in (SOURCE_METRICS, CHECKPOINT_METRICS)
    for form in (LEGACY_FORMAT, NEW_FORMAT)
}


def build_metric_families(
    group: JmxMetricGroup, owner: MetricsOwner, rows: AttributeValues
) -> list[MetricFamily]:
    """Build the Prometheus metric families of a JMX metric group, in each configured name
    format."""
    families = []
    for form in owner.formats:
        owner_labels = _build_owner_labels(owner, form)
        rows_with_labels = [((*owner_labels, *about), numbers) for about, numbers in rows.items()]
        for attribute, metric in _DECLARED_METRICS[group.name, form].items():
            series = {labels: numbers[attribute] for labels, numbers in rows_with_labels}
            families.append(MetricFamily(metric=metric, series=series))
    return families


def build_mm2_metric_family(
    metric: Metric, owner: MetricsOwner, values: Mapping[tuple[str, ...], float]
) -> MetricFamily:
    """Build the Prometheus family of a metric that only mm2 has. `values` is keyed by the label
    values except source and target."""
    series = {(owner.source, owner.target, *about): value for about, value in values.items()}
    return MetricFamily(metric=metric, series=series)


def _build_owner_labels(owner: MetricsOwner, form: str) -> tuple[str, ...]:
    flow = (owner.source, owner.target)
    return flow if form == LEGACY_FORMAT else (owner.task.connector, str(owner.task.task), *flow)


def build_metrics_owner(task: ConnectorTaskId, config: MirrorConnectorConfig) -> MetricsOwner:
    """Build the `MetricsOwner` of a task from the connector configuration."""
    return MetricsOwner(
        task=task, source=config.source, target=config.target, formats=config.metric_formats
    )


class SourceMetrics:
    """Metrics of a source task by mirror partition. A partition's metrics are exposed while the
    partition is assigned to the task."""

    def __init__(
        self,
        owner: MetricsOwner,
        partitions: Iterable[PartitionSetup] = (),
        *,
        clock: Clock,
    ) -> None:
        self._owner = owner
        self._clock = clock
        self._lock = threading.Lock()
        self._statistics: dict[tuple[str, ...], PartitionStatistics] = {}
        self.set_assigned_partitions(partitions)

    def set_assigned_partitions(self, partitions: Iterable[PartitionSetup]) -> None:
        """Replace the assigned partitions. The metrics of partitions that remain assigned are
        kept."""
        with self._lock:
            known = self._statistics
            self._statistics = {
                label: known.get(label) or PartitionStatistics()
                for label in map(_build_partition_labels, partitions)
            }

    def record_progress_report(
        self, where: PartitionSetup, report: PartitionProgressReport
    ) -> None:
        """Record a copy process's progress report of a partition. Call once per report, in order.
        Reports of unassigned partitions are ignored."""
        with self._lock:
            statistics = self._statistics.get(_build_partition_labels(where))
            if statistics is not None:
                statistics.record_progress_report(report, self._clock.now_s())

    def collect(self) -> list[MetricFamily]:
        """Collect the current metric families. Thread-safe."""
        with self._lock:
            now_s, wall_ms = self._clock.now_s(), self._clock.wall_ms()
            every = self._statistics.items()
            rows = {label: each.compute_attributes(now_s) for label, each in every}
            records = {label: each.lag_records for label, each in every}
            seconds = {label: each.compute_lag_s(wall_ms) for label, each in every}
            stopped = {(*label, each.halt_reason): 1.0 for label, each in every if each.halt_reason}
        return [
            *build_metric_families(SOURCE_METRICS, self._owner, rows),
            build_mm2_metric_family(LAG_RECORDS, self._owner, _drop_unknown_values(records)),
            build_mm2_metric_family(LAG_SECONDS, self._owner, _drop_unknown_values(seconds)),
            build_mm2_metric_family(PARTITION_STOPPED, self._owner, stopped),
        ]


class CheckpointMetrics:
    """Metrics of a checkpoint task by group and mirror partition. A metric is exposed once its
    group has a checkpoint for its partition."""

    def __init__(self, owner: MetricsOwner, *, clock: Clock) -> None:
        self._owner = owner
        self._clock = clock
        self._lock = threading.Lock()
        self._latencies: dict[tuple[str, ...], WindowedLatencies] = {}

    def record_acknowledged_checkpoint(self, key: CheckpointKey, latency_ms: int) -> None:
        """Record the latency of an acknowledged checkpoint. Thread-safe."""
        label = (key.group, key.partition.topic, str(key.partition.partition))
        ages = RecordAges(1, latency_ms, latency_ms, latency_ms)
        with self._lock:
            times = self._latencies.setdefault(label, WindowedLatencies())
            times.observe_record_ages(ages, self._clock.now_s())

    def collect(self) -> list[MetricFamily]:
        """Collect the current metric families. Thread-safe."""
        with self._lock:
            now_s = self._clock.now_s()
            rows = {
                label: compute_checkpoint_attributes(each, now_s)
                for label, each in self._latencies.items()
            }
        return build_metric_families(CHECKPOINT_METRICS, self._owner, rows)


def _build_partition_labels(where: PartitionSetup) -> tuple[str, ...]:
    return (where.remote_topic, str(where.partition))


def _drop_unknown_values(
    found: Mapping[tuple[str, ...], float | None],
) -> dict[tuple[str, ...], float]:
    return {label: value for label, value in found.items() if value is not None}
