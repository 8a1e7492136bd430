"""Every metric of `mm2 run`, declared once: name, kind, unit, labels and help text.

Metrics are per topic, not per partition: a thousand partitions must not overload a Prometheus
server. `metrics.by: partition` adds `PARTITION_METRICS`. An unknown value is left out, never
reported as 0. If several nodes share a flow, each node exports only the part that it runs.

Values are set by `mm2.metrics.collector`. The reference of all metrics is generated from this
module.
"""

from __future__ import annotations

from connect_runtime.base.metrics import Metric, MetricKind
from mm2.replication import latency

_TOPIC_LABELS = ("flow", "topic")

BUILD_INFO = Metric(
    name="mm2_build_info",
    kind=MetricKind.GAUGE,
    help="Always 1; the label says which release runs.",
    labels=("version",),
)
ENGINE_READY = Metric(
    name="mm2_engine_ready",
    kind=MetricKind.GAUGE,
    help="1 when the engine that runs the copies (Spark) is up, else 0.",
)
FLOW_STATE = Metric(
    name="mm2_flow_state",
    kind=MetricKind.GAUGE,
    help="1 for the state that the flow is in, 0 for the others.",
    labels=("flow", "state"),
)
FLOW_HEALTHY = Metric(
    name="mm2_flow_healthy",
    kind=MetricKind.GAUGE,
    help="1 when the flow replicates and nothing of it needs an operator, else 0: the verdict of "
    "mm2 status and /health/replicating. Absent while that is not known.",
    labels=("flow",),
)
CLUSTER_REACHABLE = Metric(
    name="mm2_flow_cluster_reachable",
    kind=MetricKind.GAUGE,
    help="1 while the flow's source or target cluster answers this process, 0 once none of its "
    "brokers has answered for the flow's `unreachable.after.seconds`.",
    labels=("flow", "side"),
)
FLOW_TASKS = Metric(
    name="mm2_flow_tasks",
    kind=MetricKind.GAUGE,
    help="Tasks of the flow by state; FAILED ones copy nothing until they are started again.",
    unit="tasks",
    labels=("flow", "state"),
)
TASK_RESTARTS = Metric(
    name="mm2_task_restarts_total",
    kind=MetricKind.COUNTER,
    help="Copies of the flow that ended unasked and were started again.",
    unit="restarts",
    labels=("flow",),
)
INCIDENTS = Metric(
    name="mm2_incidents_total",
    kind=MetricKind.COUNTER,
    help="Incidents stored: what was lost, may stand twice, or could not be ruled out, by kind.",
    labels=("flow", "topic", "kind"),
)
SPARK_MISSING_SLOTS = Metric(
    name="mm2_spark_missing_slots",
    kind=MetricKind.GAUGE,
    help="Task slots that the Spark cluster lacks for all tasks to run.",
    unit="slots",
    labels=("flow",),
)
FLOW_PARTITIONS = Metric(
    name="mm2_flow_partitions",
    kind=MetricKind.GAUGE,
    help="Source partitions of the flow by the phase of their copy; paused where an operator wants "
    "it so, of the topic or the flow, and nothing is wrong with them.",
    unit="partitions",
    labels=("flow", "phase"),
)
FLOW_EXPECTED_PARTITIONS = Metric(
    name="mm2_flow_wanted_partitions",
    kind=MetricKind.GAUGE,
    help="Source partitions that the flow's source connector has handed out to be copied, on "
    "whichever node: as many have to be in phase copying or boundary. Told by the node that runs "
    "the connector.",
    unit="partitions",
    labels=("flow",),
)
FLOW_OVERRIDE = Metric(
    name="mm2_flow_held",
    kind=MetricKind.GAUGE,
    help="1 while an operator holds the whole flow: paused (mm2 pause), or stopped (mm2 failover, "
    "or over REST). Absent otherwise.",
    labels=("flow", "by"),
)
CONNECTOR_OVERRIDE = Metric(
    name="mm2_connector_held",
    kind=MetricKind.GAUGE,
    help="1 while an operator holds a connector of the flow other than its source connector: "
    "paused (over REST), or stopped (mm2 failover, or over REST). Absent otherwise; of the source "
    "connector mm2_flow_held tells.",
    labels=("flow", "connector", "by"),
)
HALTED_PARTITIONS = Metric(
    name="mm2_stopped_partitions",
    kind=MetricKind.GAUGE,
    help="Partitions that stand still until somebody acts, by topic and cause.",
    unit="partitions",
    labels=("flow", "topic", "cause"),
)
REENCODED_PARTITIONS = Metric(
    name="mm2_opened_partitions",
    kind=MetricKind.GAUGE,
    help="Partitions whose newest batch was opened instead of passed through, by why.",
    unit="partitions",
    labels=("flow", "topic", "why"),
)
UNFENCED_PARTITIONS = Metric(
    name="mm2_unfenced_partitions",
    kind=MetricKind.GAUGE,
    help="Partitions that are copied at least once, because no transactional id may be used.",
    unit="partitions",
    labels=_TOPIC_LABELS,
)
TRANSACTIONAL_PARTITIONS = Metric(
    name="mm2_transactional_partitions",
    kind=MetricKind.GAUGE,
    help="Partitions that are copied in transactions, because their records are old.",
    unit="partitions",
    labels=_TOPIC_LABELS,
)
REPLICATED_RECORDS = Metric(
    name="mm2_replicated_records_total",
    kind=MetricKind.COUNTER,
    help="Records that the target has acknowledged.",
    unit="records",
    labels=_TOPIC_LABELS,
)
REPLICATED_BYTES = Metric(
    name="mm2_replicated_bytes_total",
    kind=MetricKind.COUNTER,
    help="Bytes of record batches, as compressed, that the target has acknowledged.",
    unit="bytes",
    labels=_TOPIC_LABELS,
)
LAG_RECORDS = Metric(
    name="mm2_replication_lag_records",
    kind=MetricKind.GAUGE,
    help="Source last stable offset minus next offset to copy, summed over partitions where both "
    "are known; an upper bound where the log has gaps.",
    unit="records",
    labels=_TOPIC_LABELS,
)
LAG_SECONDS = Metric(
    name="mm2_replication_lag_seconds",
    kind=MetricKind.GAUGE,
    help="Age of the oldest record not yet copied, 0 if none; absent while unknown.",
    unit="seconds",
    labels=_TOPIC_LABELS,
)
TIME_TO_DATA_LOSS = Metric(
    name="mm2_source_loss_seconds",
    kind=MetricKind.GAUGE,
    help="Until the source deletes the oldest record not yet copied, if nothing is copied until "
    "then; 0 once it has. Absent while that is not known, or nothing deletes it.",
    unit="seconds",
    labels=_TOPIC_LABELS,
)
REPLICATION_LATENCY = Metric(
    name="mm2_replication_latency_seconds",
    kind=MetricKind.HISTOGRAM,
    help="From a record's timestamp until the target acknowledged its copy, counted by record. Of "
    "a batch the youngest and the oldest record are known; those between are taken to be spread "
    "evenly. Records from a clock that is ahead count as 0.",
    unit="seconds",
    labels=("flow",),
    bounds=tuple(each / 1000 for each in latency.BUCKET_BOUNDS_MS),
)
REPLICATED_BATCHES = Metric(
    name="mm2_replicated_batches_total",
    kind=MetricKind.COUNTER,
    help="Record batches that the target has acknowledged, by path: passed as they came, or opened "
    "and made anew.",
    unit="batches",
    labels=("flow", "topic", "path"),
)
DUPLICATES_REFUSED = Metric(
    name="mm2_duplicates_refused_total",
    kind=MetricKind.COUNTER,
    help="Records that would stand on the target twice, and do not: those that a take found there "
    "although no anchor told of them, and those of batches that brokers refused because they had "
    "them already or because a newer owner copies the partition.",
    labels=_TOPIC_LABELS,
)
OFFSET_MAP_AGE = Metric(
    name="mm2_offset_map_age_seconds",
    kind=MetricKind.GAUGE,
    help="Since when something is copied that no stored anchor of the offset map tells of, the "
    "topic's longest; 0 when the map covers all that is copied. About a second while records flow.",
    unit="seconds",
    labels=_TOPIC_LABELS,
)
GROUP_SYNC_AGE = Metric(
    name="mm2_group_sync_age_seconds",
    kind=MetricKind.GAUGE,
    help="Since the last complete round of checkpoints, and of offsets written into groups where "
    "that is on: of the round that is longer ago, of all tasks here. A round counts if all groups "
    "could be read, the target has acknowledged its checkpoints, and no group was refused (one in "
    "use is none); before the first it is since the task began to wait for it. Absent where "
    "checkpoints are off, and on nodes without a checkpoint task.",
    unit="seconds",
    labels=("flow",),
)
SYNCED_GROUPS = Metric(
    name="mm2_synced_groups",
    kind=MetricKind.GAUGE,
    help="Groups that have a checkpoint, of those that the checkpoint tasks here look at.",
    labels=("flow",),
)
SPARK_SLOTS = Metric(
    name="mm2_spark_slots",
    kind=MetricKind.GAUGE,
    help="Task slots of the Spark that runs the copies: used, or free. Absent without Spark, and "
    "until it has told.",
    unit="slots",
    labels=("use",),
)
REBALANCES = Metric(
    name="mm2_rebalances_total",
    kind=MetricKind.COUNTER,
    help="Rebalances of the flow's Connect group that this node took part in.",
    labels=("flow",),
)
HEARTBEAT_AGE = Metric(
    name="mm2_heartbeat_age_seconds",
    kind=MetricKind.GAUGE,
    help="Age of the newest heartbeat of the source whose copy the target has acknowledged: since "
    "it was written. Absent before the first, and on nodes that do not copy the topic heartbeats.",
    unit="seconds",
    labels=("flow",),
)
HEARTBEAT_ROUND_TRIP = Metric(
    name="mm2_heartbeat_round_trip_seconds",
    kind=MetricKind.GAUGE,
    help="From writing that heartbeat until the target had acknowledged its copy.",
    unit="seconds",
    labels=("flow",),
)
CLOCK_SKEW = Metric(
    name="mm2_clock_skew_seconds",
    kind=MetricKind.GAUGE,
    help="By how much timestamps of the source lay in the future of this machine's clock, at most, "
    "in the last minute: so far at least the clocks differ of who stamped them (producers, or "
    "brokers with LogAppendTime). 0 when none did; what is a day ahead counts as no clock's.",
    unit="seconds",
    labels=("flow",),
)
LAST_REPLICATION_AGE = Metric(
    name="mm2_flow_crossing_age_seconds",
    kind=MetricKind.GAUGE,
    help="Since the target last acknowledged a batch of the flow (a heartbeat's, too), or, if that "
    "is later, since all of the source was last known to be copied, its brokers answering; while "
    "neither was, since the flow began here. Absent on nodes that copy nothing of it.",
    unit="seconds",
    labels=("flow",),
)
LAST_DRILL = Metric(
    name="mm2_last_drill_timestamp_seconds",
    kind=MetricKind.GAUGE,
    help="Unix time of the last drill that passed, from the file that drill.report names, of the "
    "flows that run here.",
    unit="seconds",
    labels=("flow",),
)
DRILL_REPORT_CONFIGURED = Metric(
    name="mm2_drills_noted",
    kind=MetricKind.GAUGE,
    help="1 for the flows that run here where drill.report names the file that drills are noted "
    "in, whether or not one passed. Absent otherwise: then nobody is reminded of drills.",
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
    FLOW_EXPECTED_PARTITIONS,
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
    GROUP_SYNC_AGE,
    SYNCED_GROUPS,
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
"""These are shown only where the settings want series of partitions."""
