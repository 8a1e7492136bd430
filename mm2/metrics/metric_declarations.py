"""Every metric of `mm2 run`, declared once: name, kind, unit, labels and help text.

Metrics are per topic, not per partition, so that a thousand partitions do not overload a Prometheus
server. `metrics.by: partition` adds `PARTITION_METRICS`. An unknown value is omitted, never
reported as 0. If several nodes share a flow, each node exports only the values of its own tasks.

Values are set by `mm2.metrics.collector`. The reference of all metrics is generated from this
module.
"""

from __future__ import annotations

from connect_runtime.base.metrics import Metric, MetricKind
from mm2.replication import replication_latency

_TOPIC_LABELS = ("flow", "topic")

BUILD_INFO = Metric(
    name="mm2_build_info",
    kind=MetricKind.GAUGE,
    help="Always 1. The label contains the release of mm2.",
    labels=("version",),
)
ENGINE_READY = Metric(
    name="mm2_engine_ready",
    kind=MetricKind.GAUGE,
    help="1 if the engine that runs the copy processes (Spark) is running, else 0.",
)
FLOW_STATE = Metric(
    name="mm2_flow_state",
    kind=MetricKind.GAUGE,
    help="1 for the current state of the flow, 0 for every other state.",
    labels=("flow", "state"),
)
FLOW_HEALTHY = Metric(
    name="mm2_flow_healthy",
    kind=MetricKind.GAUGE,
    help=(
        "1 if the flow is replicating and needs no operator action, else 0. Matches mm2 status "
        "and /health/replicating. Absent while unknown."
    ),
    labels=("flow",),
)
CLUSTER_REACHABLE = Metric(
    name="mm2_flow_cluster_reachable",
    kind=MetricKind.GAUGE,
    help=(
        "1 if the flow's source or target cluster responds to this process, 0 once none of its "
        "brokers has responded for the flow's `unreachable.after.seconds`."
    ),
    labels=("flow", "side"),
)
FLOW_TASKS = Metric(
    name="mm2_flow_tasks",
    kind=MetricKind.GAUGE,
    help="Tasks of the flow by state. FAILED tasks do not replicate until they are restarted.",
    unit="tasks",
    labels=("flow", "state"),
)
TASK_RESTARTS = Metric(
    name="mm2_task_restarts_total",
    kind=MetricKind.COUNTER,
    help="Restarts of copy processes that ended unexpectedly.",
    unit="restarts",
    labels=("flow",),
)
INCIDENTS = Metric(
    name="mm2_incidents_total",
    kind=MetricKind.COUNTER,
    help=(
        "Incident records that were stored, by kind. An incident record describes records that "
        "were lost, or that are or may be duplicated."
    ),
    labels=("flow", "topic", "kind"),
)
SPARK_MISSING_SLOTS = Metric(
    name="mm2_spark_missing_slots",
    kind=MetricKind.GAUGE,
    help="Additional Spark task slots needed to run all tasks of the flow.",
    unit="slots",
    labels=("flow",),
)
FLOW_PARTITIONS = Metric(
    name="mm2_flow_partitions",
    kind=MetricKind.GAUGE,
    help=(
        "Source partitions of the flow by phase. The phase is paused if an operator has paused "
        "the flow or topic and the partition is not halted."
    ),
    unit="partitions",
    labels=("flow", "phase"),
)
FLOW_ASSIGNED_PARTITIONS = Metric(
    name="mm2_flow_assigned_partitions",
    kind=MetricKind.GAUGE,
    help=(
        "Source partitions that the source connector has assigned to tasks on all nodes. The sum "
        "of mm2_flow_partitions over all nodes in the phases copying and boundary should be the "
        "same. Exported by the node that runs the connector."
    ),
    unit="partitions",
    labels=("flow",),
)
FLOW_OVERRIDE = Metric(
    name="mm2_flow_override",
    kind=MetricKind.GAUGE,
    help="1 while an operator override applies to the whole flow: paused (mm2 pause) or stopped "
    "(mm2 failover, or REST). Absent otherwise.",
    labels=("flow", "override"),
)
CONNECTOR_OVERRIDE = Metric(
    name="mm2_connector_override",
    kind=MetricKind.GAUGE,
    help=(
        "1 while an operator override applies to a connector of the flow other than the source "
        "connector: paused (REST) or stopped (mm2 failover, or REST). Absent otherwise. For the "
        "source connector, see mm2_flow_override."
    ),
    labels=("flow", "connector", "override"),
)
HALTED_PARTITIONS = Metric(
    name="mm2_halted_partitions",
    kind=MetricKind.GAUGE,
    help="Partitions that are halted until an operator acts, by topic and halt reason.",
    unit="partitions",
    labels=("flow", "topic", "reason"),
)
REENCODED_PARTITIONS = Metric(
    name="mm2_reencoded_partitions",
    kind=MetricKind.GAUGE,
    help="Partitions whose newest batch was re-encoded instead of passed through, by reason.",
    unit="partitions",
    labels=("flow", "topic", "reason"),
)
UNFENCED_PARTITIONS = Metric(
    name="mm2_unfenced_partitions",
    kind=MetricKind.GAUGE,
    help=(
        "Partitions that are replicated only at least once, because mm2 is not authorized for the "
        "transactional id or delivery is at-least-once."
    ),
    unit="partitions",
    labels=_TOPIC_LABELS,
)
TRANSACTIONAL_PARTITIONS = Metric(
    name="mm2_transactional_partitions",
    kind=MetricKind.GAUGE,
    help=(
        "Partitions that are replicated in transactions. Their records are so old that the target "
        "would otherwise expire the producer state."
    ),
    unit="partitions",
    labels=_TOPIC_LABELS,
)
REPLICATED_RECORDS = Metric(
    name="mm2_replicated_records_total",
    kind=MetricKind.COUNTER,
    help="Records acknowledged by the target.",
    unit="records",
    labels=_TOPIC_LABELS,
)
REPLICATED_BYTES = Metric(
    name="mm2_replicated_bytes_total",
    kind=MetricKind.COUNTER,
    help="Compressed bytes of record batches acknowledged by the target.",
    unit="bytes",
    labels=_TOPIC_LABELS,
)
LAG_RECORDS = Metric(
    name="mm2_replication_lag_records",
    kind=MetricKind.GAUGE,
    help=(
        "Source last stable offset minus next offset to replicate, summed over partitions where "
        "both are known. An upper bound if the log has gaps."
    ),
    unit="records",
    labels=_TOPIC_LABELS,
)
LAG_SECONDS = Metric(
    name="mm2_replication_lag_seconds",
    kind=MetricKind.GAUGE,
    help=(
        "Age of the oldest unreplicated record. 0 if all records are replicated, absent while "
        "unknown."
    ),
    unit="seconds",
    labels=_TOPIC_LABELS,
)
TIME_TO_DATA_LOSS = Metric(
    name="mm2_time_to_data_loss_seconds",
    kind=MetricKind.GAUGE,
    help=(
        "Time until retention deletes the oldest unreplicated record from the source. 0 if it was "
        "already deleted. Absent if unknown, or if no record is due for deletion."
    ),
    unit="seconds",
    labels=_TOPIC_LABELS,
)
REPLICATION_LATENCY = Metric(
    name="mm2_replication_latency_seconds",
    kind=MetricKind.HISTOGRAM,
    help=(
        "Time from a record's timestamp until the target acknowledged its copy, counted per "
        "record. Only the youngest and the oldest record of a batch are known; the others are "
        "assumed to be spread evenly in between. Timestamps in the future count as 0."
    ),
    unit="seconds",
    labels=("flow",),
    bounds=tuple(each / 1000 for each in replication_latency.BUCKET_BOUNDS_MS),
)
REPLICATED_BATCHES = Metric(
    name="mm2_replicated_batches_total",
    kind=MetricKind.COUNTER,
    help="Record batches acknowledged by the target, by path: pass-through (copied byte for "
    "byte) or re-encoded (decoded and encoded again).",
    unit="batches",
    labels=("flow", "topic", "path"),
)
DUPLICATES_REFUSED = Metric(
    name="mm2_duplicates_refused_total",
    kind=MetricKind.COUNTER,
    help=(
        "Records that could have been duplicated on the target but were not: mm2 found them at "
        "the end of the target partition when it acquired the partition (tail matching), or "
        "brokers rejected them as already stored or as written by a fenced owner."
    ),
    labels=_TOPIC_LABELS,
)
OFFSET_MAP_AGE = Metric(
    name="mm2_offset_map_age_seconds",
    kind=MetricKind.GAUGE,
    help=(
        "Age of the oldest replicated record that the stored offset map does not cover yet, the "
        "maximum of the topic's partitions. 0 if the map covers all records. About one second "
        "while records are being replicated."
    ),
    unit="seconds",
    labels=_TOPIC_LABELS,
)
CHECKPOINT_AGE = Metric(
    name="mm2_checkpoint_age_seconds",
    kind=MetricKind.GAUGE,
    help=(
        "Time since the last complete round of checkpoints and, if enabled, of group offset sync; "
        "the maximum of all tasks on this node. A round is complete if all groups could be read, "
        "the target has acknowledged their checkpoints, and the target rejected no group offset "
        "(except offsets of groups in use). Before the first round: time since the task started. "
        "Absent if checkpoints are disabled, and on nodes without a checkpoint task."
    ),
    unit="seconds",
    labels=("flow",),
)
CHECKPOINTED_GROUPS = Metric(
    name="mm2_checkpointed_groups",
    kind=MetricKind.GAUGE,
    help="Consumer groups with a checkpoint from the checkpoint tasks of this node.",
    labels=("flow",),
)
SPARK_SLOTS = Metric(
    name="mm2_spark_slots",
    kind=MetricKind.GAUGE,
    help=(
        "Task slots of the Spark application that runs the copy processes, by state (used or "
        "free). Absent without Spark, and until Spark has reported them."
    ),
    unit="slots",
    labels=("use",),
)
REBALANCES = Metric(
    name="mm2_rebalances_total",
    kind=MetricKind.COUNTER,
    help="Rebalances of the flow's Connect group in which this node took part.",
    labels=("flow",),
)
HEARTBEAT_AGE = Metric(
    name="mm2_heartbeat_age_seconds",
    kind=MetricKind.GAUGE,
    help=(
        "Age of the newest source heartbeat that the target has acknowledged. Absent before the "
        "first one, and on nodes that do not replicate the heartbeats topic."
    ),
    unit="seconds",
    labels=("flow",),
)
HEARTBEAT_ROUND_TRIP = Metric(
    name="mm2_heartbeat_round_trip_seconds",
    kind=MetricKind.GAUGE,
    help="Time from when the newest heartbeat was written until the target acknowledged its copy.",
    unit="seconds",
    labels=("flow",),
)
CLOCK_SKEW = Metric(
    name="mm2_clock_skew_seconds",
    kind=MetricKind.GAUGE,
    help=(
        "Maximum time by which a source record's timestamp was ahead of this machine's clock in "
        "the last minute: a lower bound of the clock difference to producers, or to brokers with "
        "LogAppendTime. 0 if no timestamp was in the future. Timestamps more than a day ahead are "
        "ignored."
    ),
    unit="seconds",
    labels=("flow",),
)
LAST_REPLICATION_AGE = Metric(
    name="mm2_flow_last_replication_age_seconds",
    kind=MetricKind.GAUGE,
    help=(
        "Time since the target last acknowledged a batch of the flow (including heartbeats) or, "
        "if later, since the source was last known to be fully replicated. If neither has "
        "happened yet: time since the flow started. Absent on nodes that do not replicate any "
        "partition of the flow."
    ),
    unit="seconds",
    labels=("flow",),
)
LAST_DRILL = Metric(
    name="mm2_last_drill_timestamp_seconds",
    kind=MetricKind.GAUGE,
    help="Unix time of the last successful drill of a flow on this node, from the file named by "
    "drill.report.",
    unit="seconds",
    labels=("flow",),
)
DRILL_REPORT_CONFIGURED = Metric(
    name="mm2_drill_report_configured",
    kind=MetricKind.GAUGE,
    help=(
        "1 for each flow on this node if drill.report names the file in which drills are "
        "recorded, even if no drill has succeeded. Absent otherwise, so that the alert "
        "Mm2DrillOverdue does not fire."
    ),
    labels=("flow",),
)

ALL_METRICS = (
    BUILD_INFO,
    ENGINE_READY,
    FLOW_STATE,
    FLOW_HEALTHY,
    CLUSTER_REACHABLE,
    FLOW_TASKS,
    TASK_RESTARTS,
    INCIDENTS,
    SPARK_MISSING_SLOTS,
    SPARK_SLOTS,
    REBALANCES,
    FLOW_PARTITIONS,
    FLOW_ASSIGNED_PARTITIONS,
    FLOW_OVERRIDE,
    CONNECTOR_OVERRIDE,
    HALTED_PARTITIONS,
    REENCODED_PARTITIONS,
    UNFENCED_PARTITIONS,
    TRANSACTIONAL_PARTITIONS,
    REPLICATED_RECORDS,
    REPLICATED_BYTES,
    REPLICATED_BATCHES,
    DUPLICATES_REFUSED,
    REPLICATION_LATENCY,
    LAG_RECORDS,
    LAG_SECONDS,
    TIME_TO_DATA_LOSS,
    LAST_REPLICATION_AGE,
    HEARTBEAT_AGE,
    HEARTBEAT_ROUND_TRIP,
    CLOCK_SKEW,
    OFFSET_MAP_AGE,
    CHECKPOINT_AGE,
    CHECKPOINTED_GROUPS,
    LAST_DRILL,
    DRILL_REPORT_CONFIGURED,
)

PARTITION_LAG_RECORDS = Metric(
    name="mm2_partition_lag_records",
    kind=MetricKind.GAUGE,
    help=LAG_RECORDS.help.replace(", summed over partitions where both are known", ""),
    unit="records",
    labels=(*_TOPIC_LABELS, "partition"),
)
PARTITION_LAG_SECONDS = Metric(
    name="mm2_partition_lag_seconds",
    kind=MetricKind.GAUGE,
    help=LAG_SECONDS.help,
    unit="seconds",
    labels=(*_TOPIC_LABELS, "partition"),
)
PARTITION_METRICS = (PARTITION_LAG_RECORDS, PARTITION_LAG_SECONDS)
"""Metrics that are exported only with `metrics.by: partition`."""
