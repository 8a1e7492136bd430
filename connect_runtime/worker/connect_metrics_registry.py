"""Defines all metrics of a worker by Java name, and the rule that derives their Prometheus names.

Java exposes an attribute of the MBean `kafka.connect:type=<group>,<tag>=...`. Here it is exposed as

    kafka_connect_<group>_<attribute>{<tag>="..."}

with `_` for `-`, the group without a leading `connect-` and a trailing `-metrics`, and tags as
labels: `kafka_connect_worker_connector_count`,
`kafka_connect_source_task_source_record_poll_total`. Strimzi's rules for the JMX exporter produce
the same names, so dashboards for them work.

Numeric attributes keep their units: milliseconds, and ratios and percentages from 0 to 1. A text
attribute becomes a label named after the attribute, on a series that is always 1:
`kafka_connect_connector_status{connector="c",status="running"} 1`. Text attributes of a task that
never change share one series, `..._info`, to keep the number of series small. A metric whose Java
name ends in `-total` is a counter; every other metric is a gauge, including Java's other sums
(`total-retries`).

`-avg`, `-max`, `-rate` and `-percentage` cover the last sample windows; all others cover the time
since the task or the worker started. Java declares `sink-record-lag-max` but never sets it. Here it
is the number of records by which the task is behind its consumer, as in Java's description.

The names come from ConnectMetricsRegistry, WorkerCoordinator, AbstractCoordinator and AppInfoParser
in Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.base.metrics import Metric, MetricFamily, MetricKind

_PREFIX = "kafka_connect"
_COUNTER_SUFFIX = "-total"
INFO_ATTRIBUTE = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricGroup:
    """A metric group and its attributes, as in Java's ConnectMetricsRegistry."""

    name: str
    tags: tuple[str, ...] = ()
    numbers: Mapping[str, str] = field(default_factory=dict)
    """Description of each numeric attribute, by attribute name."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Description of each text attribute, by attribute name."""
    info_attributes: tuple[str, ...] = ()
    """Names of text attributes that never change. They are labels of one shared series."""

    @property
    def attributes(self) -> frozenset[str]:
        """Java names of all attributes of the group."""
        return frozenset({*self.numbers, *self.texts, *self.info_attributes})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricReading:
    """Current attribute values of a metric group for one set of tag values.

    Attributes without a value are not exposed. `ConnectMetricsRegistry.build_families` raises
    `KeyError` for unknown attributes in `numbers` or `texts`.
    """

    group: MetricGroup
    tags: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    info: Mapping[str, str] = field(default_factory=dict)


def build_metric_name(group: str, attribute: str) -> str:
    """Return the Prometheus metric name for a Java metric group and attribute."""
    short = group.removeprefix("connect-").removesuffix("-metrics")
    return f"{_PREFIX}_{short}_{attribute}".replace("-", "_")


def declare_metrics(group: MetricGroup) -> dict[str, Metric]:
    """Return the Prometheus metric for each attribute of a group. `INFO_ATTRIBUTE` stands for the
    series that all unchanging text attributes share."""
    found = {
        attribute: Metric(
            name=build_metric_name(group.name, attribute),
            kind=MetricKind.COUNTER if attribute.endswith(_COUNTER_SUFFIX) else MetricKind.GAUGE,
            help=meaning,
            labels=_build_label_names(group.tags),
        )
        for attribute, meaning in group.numbers.items()
    }
    for attribute, meaning in group.texts.items():
        found[attribute] = _declare_metric(group, attribute, meaning, texts=(attribute,))
    if group.info_attributes:
        found[INFO_ATTRIBUTE] = _declare_metric(
            group,
            INFO_ATTRIBUTE,
            "Classes and versions of the connector, task and converters.",
            texts=group.info_attributes,
        )
    return found


def _declare_metric(
    group: MetricGroup, attribute: str, meaning: str, *, texts: tuple[str, ...]
) -> Metric:
    return Metric(
        name=build_metric_name(group.name, attribute),
        kind=MetricKind.GAUGE,
        help=meaning,
        labels=_build_label_names((*group.tags, *texts)),
    )


def _build_label_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(each.replace("-", "_") for each in names)


class ConnectMetricsRegistry:
    """Prometheus metrics of all metric groups. Their names must be unique."""

    def __init__(self, groups: Iterable[MetricGroup]) -> None:
        self._metrics = {(group.name, group.tags): declare_metrics(group) for group in groups}
        names = [each.name for found in self._metrics.values() for each in found.values()]
        assert len(set(names)) == len(names), sorted(names)

    def build_families(self, readings: Iterable[MetricReading]) -> tuple[MetricFamily, ...]:
        """Convert metric readings to Prometheus metric families, sorted by name."""
        series: dict[str, tuple[Metric, dict[tuple[str, ...], float]]] = {}

        def add_series_value(metric: Metric, labels: tuple[str, ...], value: float) -> None:
            found = series.get(metric.name)
            if found is None:
                found = series[metric.name] = (metric, {})
            found[1][labels] = value

        for reading in readings:
            known = self._metrics[reading.group.name, reading.group.tags]
            for attribute, value in reading.numbers.items():
                add_series_value(known[attribute], reading.tags, value)
            for attribute, text in reading.texts.items():
                add_series_value(known[attribute], (*reading.tags, text), 1.0)
            if reading.info:
                texts = (reading.info.get(each, "") for each in reading.group.info_attributes)
                add_series_value(known[INFO_ATTRIBUTE], (*reading.tags, *texts), 1.0)
        return tuple(
            MetricFamily(metric=metric, series=values)
            for _, (metric, values) in sorted(series.items())
        )


Group = MetricGroup
_CONNECTOR_TAGS = ("connector",)
_TASK_TAGS = ("connector", "task")

APP_INFO = Group(
    name="app-info",
    tags=("client-id",),
    numbers={"start-time-ms": "Start time of the worker, in ms since the epoch."},
    texts={
        "version": "Kafka Connect release that this worker is compatible with.",
        "commit-id": "Commit that the worker was built from.",
    },
)


def _describe_startup_metrics(what: str) -> dict[str, str]:
    return {
        f"{what}-startup-attempts-total": f"Completed {what} startups, successful or failed.",
        f"{what}-startup-success-total": f"Successful {what} startups.",
        f"{what}-startup-success-percentage": f"Share of {what} startups that succeeded.",
        f"{what}-startup-failure-total": f"Failed {what} startups.",
        f"{what}-startup-failure-percentage": f"Share of {what} startups that failed.",
    }


WORKER = Group(
    name="connect-worker-metrics",
    numbers={
        "connector-count": "Connectors on this worker, including failed ones.",
        "task-count": "Tasks on this worker, including failed ones.",
        **_describe_startup_metrics("connector"),
        **_describe_startup_metrics("task"),
    },
)

TASK_STATES = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
TASKS_OF_CONNECTOR = Group(
    name="connect-worker-metrics",
    tags=_CONNECTOR_TAGS,
    numbers={
        "connector-total-task-count": "Tasks of this connector on this worker.",
        **{
            f"connector-{state}-task-count": f"{state.capitalize()} tasks of this connector."
            for state in TASK_STATES
        },
    },
)

REBALANCES = Group(
    name="connect-worker-rebalance-metrics",
    numbers={
        "epoch": "Generation of the group after the last rebalance.",
        "completed-rebalances-total": "Rebalances completed by this worker.",
        "rebalancing": "1 while this worker is rebalancing, otherwise 0.",
        "rebalance-max-time-ms": "Maximum duration of recent rebalances.",
        "rebalance-avg-time-ms": "Average duration of recent rebalances.",
        "time-since-last-rebalance-ms": "Time since the last rebalance; +Inf before the first.",
    },
    texts={
        "leader-name": "URL of the group's leader.",
        "connect-protocol": (
            "Group protocol: EAGER, COMPATIBLE, SESSIONED or SESSIONED_WHOLE (not in Java)."
        ),
    },
)

CONNECTOR = Group(
    name="connector-metrics",
    tags=_CONNECTOR_TAGS,
    texts={
        "connector-type": "source or sink.",
        "connector-class": "Connector class; the Java name if the plugin has one.",
        "connector-version": "Version of the connector.",
        "status": "Connector state: unassigned, running, paused, stopped, failed or restarting.",
    },
)

TASK = Group(
    name="connector-task-metrics",
    tags=_TASK_TAGS,
    numbers={
        "running-ratio": "Share of time that this task was running.",
        "pause-ratio": "Share of time that this task was paused.",
        "offset-commit-max-time-ms": "Maximum duration of an offset commit.",
        "offset-commit-avg-time-ms": "Average duration of an offset commit.",
        "offset-commit-success-percentage": "Share of offset commits that succeeded.",
        "offset-commit-failure-percentage": "Share of offset commits that failed.",
        "batch-size-max": "Maximum number of records in a batch.",
        "batch-size-avg": "Average number of records in a batch.",
    },
    texts={"status": "Task state: unassigned, running, paused, failed or restarting."},
    info_attributes=(
        "connector-class",
        "connector-type",
        "connector-version",
        "task-class",
        "task-version",
        "key-converter-class",
        "key-converter-version",
        "value-converter-class",
        "value-converter-version",
        "header-converter-class",
        "header-converter-version",
    ),
)

SOURCE_TASK = Group(
    name="source-task-metrics",
    tags=_TASK_TAGS,
    numbers={
        "source-record-poll-rate": "Records polled per second, before transformation.",
        "source-record-poll-total": "Records polled, before transformation.",
        "source-record-write-rate": "Records acknowledged by Kafka per second.",
        "source-record-write-total": "Records acknowledged by Kafka.",
        "poll-batch-max-time-ms": "Maximum duration of a poll.",
        "poll-batch-avg-time-ms": "Average duration of a poll.",
        "source-record-active-count": "Polled records not yet acknowledged, filtered or skipped.",
        "source-record-active-count-max": "Maximum number of active records.",
        "source-record-active-count-avg": "Average number of active records.",
    },
)

SINK_TASK = Group(
    name="sink-task-metrics",
    tags=_TASK_TAGS,
    numbers={
        "sink-record-read-rate": "Records read from Kafka per second, before transformation.",
        "sink-record-read-total": "Records read from Kafka, before transformation.",
        "sink-record-send-rate": "Records put to the task per second.",
        "sink-record-send-total": "Records put to the task.",
        "sink-record-lag-max": "Maximum number of uncommitted records of any partition.",
        "sink-record-active-count": "Records read whose offsets are not committed yet.",
        "sink-record-active-count-max": "Maximum number of active records.",
        "sink-record-active-count-avg": "Average number of active records.",
        "partition-count": "Partitions assigned to this task.",
        "offset-commit-seq-no": "Sequence number of the newest offset commit.",
        "offset-commit-completion-rate": "Offset commits completed per second.",
        "offset-commit-completion-total": "Offset commits completed.",
        "offset-commit-skip-rate": (
            "Offset commits per second that were superseded by a newer commit."
        ),
        "offset-commit-skip-total": "Offset commits that completed after a newer commit began.",
        "put-batch-max-time-ms": "Maximum duration of a put.",
        "put-batch-avg-time-ms": "Average duration of a put.",
    },
)

TASK_ERRORS = Group(
    name="task-error-metrics",
    tags=_TASK_TAGS,
    numbers={
        "total-record-failures": "Failed record operations, including retries.",
        "total-record-errors": "Records for which an operation failed permanently.",
        "total-records-skipped": "Records skipped because of errors.",
        "total-retries": "Retried operations.",
        "total-errors-logged": "Errors written to the log.",
        "deadletterqueue-produce-requests": "Records sent to the dead letter queue.",
        "deadletterqueue-produce-failures": "Failed writes to the dead letter queue.",
        "last-error-timestamp": "Time of the last failure, in ms since the epoch; 0 if none.",
    },
)

COORDINATOR = Group(
    name="connect-coordinator-metrics",
    tags=("client-id",),
    numbers={
        "assigned-connectors": "Connectors assigned to this worker.",
        "assigned-tasks": "Tasks assigned to this worker.",
        "heartbeat-rate": "Successful heartbeats per second.",
        "heartbeat-total": "Successful heartbeats.",
        "heartbeat-response-time-max": "Maximum heartbeat response time, in ms.",
        "last-heartbeat-seconds-ago": "Seconds since the last heartbeat; -1 before the first.",
        "join-rate": "Successful group joins per second.",
        "join-total": "Successful group joins.",
        "join-time-avg": "Average duration of a group join, in ms.",
        "join-time-max": "Maximum duration of a group join, in ms.",
        "sync-rate": "Successful group syncs per second.",
        "sync-total": "Successful group syncs.",
        "sync-time-avg": "Average duration of a group sync, in ms.",
        "sync-time-max": "Maximum duration of a group sync, in ms.",
        "rebalance-latency-avg": "Average time from the first join to the sync, in ms.",
        "rebalance-latency-max": "Maximum time from the first join to the sync, in ms.",
        "rebalance-latency-total": "Total time from the first join to the sync, in ms.",
        "rebalance-total": "Rebalances completed by this worker.",
        "rebalance-rate-per-hour": "Rebalances completed per hour.",
        "failed-rebalance-total": "Group joins and syncs that were rejected or timed out.",
        "failed-rebalance-rate-per-hour": "Failed group joins and syncs per hour.",
        "last-rebalance-seconds-ago": "Seconds since the last rebalance; -1 before the first.",
    },
)

ALL_GROUPS = (
    APP_INFO,
    WORKER,
    TASKS_OF_CONNECTOR,
    REBALANCES,
    CONNECTOR,
    TASK,
    SOURCE_TASK,
    SINK_TASK,
    TASK_ERRORS,
    COORDINATOR,
)
