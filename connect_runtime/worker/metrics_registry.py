"""Every metric of a worker, by its Java name, and the rule that makes Prometheus names of them.

Java exposes an attribute of the MBean `kafka.connect:type=<group>,<tag>=...`. Here it is

    kafka_connect_<group>_<attribute>{<tag>="..."}

with `_` for `-`, the group without a leading `connect-` and a trailing `-metrics`, and tags as
labels: `kafka_connect_worker_connector_count`,
`kafka_connect_source_task_source_record_poll_total`. Strimzi's rules for the JMX exporter give
the same names, so dashboards made for those work.

Numbers keep their units: milliseconds, and ratios and percentages from 0 to 1. A text is the value
of a label named as its attribute, on a series that is always 1:
`kafka_connect_connector_status{connector="c",status="running"} 1`. Texts of a task that never
change share one series, `..._info`, so that a thousand tasks have a thousand of them, not eleven
thousand. `-total` at the end means a counter; all else is a gauge, also Java's other sums
(`total-retries`).

`-avg`, `-max`, `-rate` and `-percentage` cover the last sample windows; everything else covers the
time since the task or the worker started. Java declares `sink-record-lag-max` but never sets it;
here it is how far the task is behind its consumer, as Java's description says.

Names: ConnectMetricsRegistry, WorkerCoordinator, AbstractCoordinator, AppInfoParser of Kafka 4.3.
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
    """`numbers`, `texts`: what an attribute means. `lasting`: texts that share one series."""

    name: str
    tags: tuple[str, ...] = ()
    numbers: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    lasting: tuple[str, ...] = ()

    @property
    def attributes(self) -> frozenset[str]:
        """All of them, as Java names them."""
        return frozenset({*self.numbers, *self.texts, *self.lasting})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricReading:
    """What a group of these tags' values says at one moment, by attribute. What is left out is not
    shown; what the group does not have is refused by `families`."""

    group: MetricGroup
    tags: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    lasting: Mapping[str, str] = field(default_factory=dict)


def build_metric_name(group: str, attribute: str) -> str:
    """By the rule above."""
    short = group.removeprefix("connect-").removesuffix("-metrics")
    return f"{_PREFIX}_{short}_{attribute}".replace("-", "_")


def declare_metrics(group: MetricGroup) -> dict[str, Metric]:
    """By attribute; `INFO_ATTRIBUTE` for those that share a series."""
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
    if group.lasting:
        found[INFO_ATTRIBUTE] = _declare_metric(
            group, INFO_ATTRIBUTE, "What it is made of.", texts=group.lasting
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
    """Metrics of these groups, made once. No two may come to the same name."""

    def __init__(self, groups: Iterable[MetricGroup]) -> None:
        self._metrics = {(group.name, group.tags): declare_metrics(group) for group in groups}
        names = [each.name for found in self._metrics.values() for each in found.values()]
        assert len(set(names)) == len(names), sorted(names)

    def families(self, readings: Iterable[MetricReading]) -> tuple[MetricFamily, ...]:
        """Of what was read, in order of names. One group's readings have tags of their own."""
        series: dict[str, tuple[Metric, dict[tuple[str, ...], float]]] = {}

        def put(metric: Metric, labels: tuple[str, ...], value: float) -> None:
            found = series.get(metric.name)
            if found is None:
                found = series[metric.name] = (metric, {})
            found[1][labels] = value

        for reading in readings:
            known = self._metrics[reading.group.name, reading.group.tags]
            for attribute, value in reading.numbers.items():
                put(known[attribute], reading.tags, value)
            for attribute, text in reading.texts.items():
                put(known[attribute], (*reading.tags, text), 1.0)
            if reading.lasting:
                texts = (reading.lasting.get(each, "") for each in reading.group.lasting)
                put(known[INFO_ATTRIBUTE], (*reading.tags, *texts), 1.0)
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
    numbers={"start-time-ms": "When the worker began, in ms since 1970."},
    texts={
        "version": "The release of Kafka Connect that this worker stands in for.",
        "commit-id": "The commit that it was built from.",
    },
)


def _describe_startup_metrics(what: str) -> dict[str, str]:
    return {
        f"{what}-startup-attempts-total": f"Starts of {what}s that came to an end, good or bad.",
        f"{what}-startup-success-total": f"Starts of {what}s that succeeded.",
        f"{what}-startup-success-percentage": f"Share of starts of {what}s that succeeded.",
        f"{what}-startup-failure-total": f"Starts of {what}s that failed.",
        f"{what}-startup-failure-percentage": f"Share of starts of {what}s that failed.",
    }


WORKER = Group(
    name="connect-worker-metrics",
    numbers={
        "connector-count": "Connectors that this worker has, failed ones too.",
        "task-count": "Tasks that this worker has, failed ones too.",
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
            f"connector-{state}-task-count": f"Tasks of this connector here that are {state}."
            for state in TASK_STATES
        },
    },
)

REBALANCES = Group(
    name="connect-worker-rebalance-metrics",
    numbers={
        "epoch": "The group's generation, as of the last rebalance.",
        "completed-rebalances-total": "Rebalances that this worker completed.",
        "rebalancing": "1 while this worker is in a rebalance, else 0.",
        "rebalance-max-time-ms": "The longest that a rebalance took lately.",
        "rebalance-avg-time-ms": "How long a rebalance took lately.",
        "time-since-last-rebalance-ms": "Since when none was completed; +Inf before the first.",
    },
    texts={
        "leader-name": "URL of the group's leader.",
        "connect-protocol": "EAGER, COMPATIBLE or SESSIONED.",
    },
)

CONNECTOR = Group(
    name="connector-metrics",
    tags=_CONNECTOR_TAGS,
    texts={
        "connector-type": "source or sink.",
        "connector-class": "Its class, by Java's name where it has one.",
        "connector-version": "Its version, as it says itself.",
        "status": "unassigned, running, paused, stopped, failed or restarting.",
    },
)

TASK = Group(
    name="connector-task-metrics",
    tags=_TASK_TAGS,
    numbers={
        "running-ratio": "Share of its time that this task was running.",
        "pause-ratio": "Share of its time that this task was paused.",
        "offset-commit-max-time-ms": "The longest that committing offsets took.",
        "offset-commit-avg-time-ms": "How long committing offsets took.",
        "offset-commit-success-percentage": "Share of offset commits that succeeded.",
        "offset-commit-failure-percentage": "Share of offset commits that failed.",
        "batch-size-max": "Records of the largest batch.",
        "batch-size-avg": "Records of a batch.",
    },
    texts={"status": "unassigned, running, paused, failed or restarting."},
    lasting=(
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
        "source-record-poll-rate": "Records polled a second, before transformation.",
        "source-record-poll-total": "Records polled, before transformation.",
        "source-record-write-rate": "Records acknowledged by Kafka a second.",
        "source-record-write-total": "Records acknowledged by Kafka.",
        "poll-batch-max-time-ms": "The longest that polling a batch took.",
        "poll-batch-avg-time-ms": "How long polling a batch took.",
        "source-record-active-count": "Records polled, and neither acknowledged nor left out yet.",
        "source-record-active-count-max": "The most that there were of these.",
        "source-record-active-count-avg": "How many there were of these.",
    },
)

SINK_TASK = Group(
    name="sink-task-metrics",
    tags=_TASK_TAGS,
    numbers={
        "sink-record-read-rate": "Records read from Kafka a second, before transformation.",
        "sink-record-read-total": "Records read from Kafka, before transformation.",
        "sink-record-send-rate": "Records put to the task a second.",
        "sink-record-send-total": "Records put to the task.",
        "sink-record-lag-max": "The most, of any partition, that were read and not committed yet.",
        "sink-record-active-count": "Records read whose offsets are not committed yet.",
        "sink-record-active-count-max": "The most that there were of these.",
        "sink-record-active-count-avg": "How many there were of these.",
        "partition-count": "Partitions that this task has.",
        "offset-commit-seq-no": "The number of the newest offset commit.",
        "offset-commit-completion-rate": "Offset commits completed a second.",
        "offset-commit-completion-total": "Offset commits completed.",
        "offset-commit-skip-rate": "Offset commits a second whose answer came after a newer began.",
        "offset-commit-skip-total": "Offset commits whose answer came after a newer began.",
        "put-batch-max-time-ms": "The longest that putting a batch took.",
        "put-batch-avg-time-ms": "How long putting a batch took.",
    },
)

TASK_ERRORS = Group(
    name="task-error-metrics",
    tags=_TASK_TAGS,
    numbers={
        "total-record-failures": "Steps of records that failed, tried again or not.",
        "total-record-errors": "Records of which a step failed for good.",
        "total-records-skipped": "Records left out because of errors.",
        "total-retries": "Steps tried again.",
        "total-errors-logged": "Errors written to the log.",
        "deadletterqueue-produce-requests": "Records sent to the dead letter queue.",
        "deadletterqueue-produce-failures": "Records that could not be sent there.",
        "last-error-timestamp": "When a step last failed, in ms since 1970; 0: never.",
    },
)

COORDINATOR = Group(
    name="connect-coordinator-metrics",
    tags=("client-id",),
    numbers={
        "assigned-connectors": "Connectors that the group has given to this worker.",
        "assigned-tasks": "Tasks that the group has given to this worker.",
        "heartbeat-rate": "Heartbeats answered a second.",
        "heartbeat-total": "Heartbeats answered.",
        "heartbeat-response-time-max": "The longest that an answer to a heartbeat took, in ms.",
        "last-heartbeat-seconds-ago": "Since when none was sent; -1 before the first.",
        "join-rate": "Joins answered well, a second.",
        "join-total": "Joins answered well.",
        "join-time-avg": "How long a join took, in ms.",
        "join-time-max": "The longest that a join took, in ms.",
        "sync-rate": "Syncs answered well, a second.",
        "sync-total": "Syncs answered well.",
        "sync-time-avg": "How long a sync took, in ms.",
        "sync-time-max": "The longest that a sync took, in ms.",
        "rebalance-latency-avg": "How long from the first join to a sync, in ms.",
        "rebalance-latency-max": "The longest of these, in ms.",
        "rebalance-latency-total": "All of these together, in ms.",
        "rebalance-total": "Rounds of the group that this worker completed.",
        "rebalance-rate-per-hour": "Rounds completed an hour.",
        "failed-rebalance-total": "Joins and syncs that were refused or not answered.",
        "failed-rebalance-rate-per-hour": "Joins and syncs refused or not answered, an hour.",
        "last-rebalance-seconds-ago": "Since when none was completed; -1 before the first.",
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
