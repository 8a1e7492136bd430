"""Dashboard of one flow: progress, lag, halted partitions, throughput and latency."""

from __future__ import annotations

from grafana.generator.board import Board, Row
from grafana.generator.panels import (
    BAD,
    FIFTH,
    GOOD,
    HALF,
    NEUTRAL,
    QUIET,
    THIRD,
    WARN,
    WHOLE,
    Column,
    Query,
    Text,
    graph,
    limit,
    number,
    rows,
)

_FLOW = '{flow=~"$flow"}'
_TOPIC = '{flow=~"$flow", topic=~"$topic"}'
_BY_TOPIC = "{{flow}} {{topic}}"
_COPIED = '{flow=~"$flow", phase=~"copying|boundary"}'

CROSSING = number(
    Text(
        title="Time since last replication",
        about="Time since the target last acknowledged a batch, including heartbeats. A "
        "flow that has caught up counts as replicating as long as its source "
        "responds. Red if the objective is missed.",
        unknown="no data: no node reports the flow",
        runbooks=("Mm2FlowStalled",),
    ),
    Query(expr=f"max by (flow) (mm2_flow_last_replication_age_seconds{_FLOW})"),
    unit="s",
    steps=((None, GOOD), (30, WARN), (60, BAD)),
    span=FIFTH,
)

BEHIND = number(
    Text(
        title="Oldest unreplicated record",
        about="Age of the oldest unreplicated record, for the topic with the largest lag. 0 "
        "if all records are replicated.",
        unknown="no data: lag is unknown",
        runbooks=("Mm2LagHigh",),
    ),
    Query(expr=f"mm2:flow:lag_seconds{_FLOW}"),
    unit="s",
    steps=((None, GOOD), (30, WARN), (60, BAD)),
    span=FIFTH,
)

CATCHING_UP = number(
    Text(
        title="Caught up in",
        about="Remaining time at the rate of the last ten minutes. Without a value, the lag "
        "is 0, constant or growing: see the graphs below.",
        unknown="lag not shrinking, or no data",
        color=QUIET,
        runbooks=("Mm2LagHigh",),
    ),
    Query(expr=f"mm2:flow:lag_records{_FLOW} / (-deriv(mm2:flow:lag_records{_FLOW}[10m]) > 0)"),
    unit="s",
    steps=((None, NEUTRAL),),
    span=FIFTH,
)

STANDING = number(
    Text(
        title="Halted partitions",
        about="Partitions that are halted or fenced until an operator acts. Normal: 0. The "
        "table below shows the topics and the reasons.",
        unknown="no data: no partitions reported",
        runbooks=("Mm2PartitionsHalted",),
    ),
    Query(expr='sum by (flow) (mm2_flow_partitions{flow=~"$flow", phase=~"halted|fenced"})'),
    unit="short",
    steps=((None, GOOD), (1, BAD)),
    span=FIFTH,
)

COPIED = graph(
    Text(
        title="Partitions assigned and replicating",
        about="If the lines differ, some partitions are waiting or halted, or a node was lost.",
    ),
    Query(expr=f"max by (flow) (mm2_flow_assigned_partitions{_FLOW})", legend="{{flow}} assigned"),
    Query(expr=f"sum by (flow) (mm2_flow_partitions{_COPIED})", legend="{{flow}} replicating"),
    unit="short",
    span=WHOLE,
    whole=True,
)

HELD = number(
    Text(
        title="Paused or stopped",
        about="paused: by mm2 pause. stopped: by mm2 failover or through the REST API. mm2 "
        "resume resumes replication.",
        unknown="not paused, or no data",
        color=QUIET,
        runbooks=("Mm2FlowPausedOrStopped",),
    ),
    Query(
        expr=f"max by (flow, override) (mm2_flow_override{_FLOW})", legend="{{flow}} {{override}}"
    ),
    unit="short",
    steps=((None, WARN),),
    words={"1": ("active", WARN)},
    span=WHOLE - 4 * FIFTH,
)

AGES = graph(
    Text(
        title="Age of the mirror",
        about="Age of the oldest unreplicated record, or time since the last replication. "
        "Below the dashed line, the objective is met.",
        runbooks=("Mm2FreshnessBurnsFast",),
    ),
    Query(expr=f"mm2:flow:age_seconds{_FLOW}"),
    limit("freshness"),
    unit="s",
)

PHASES = graph(
    Text(
        title="Partitions by phase",
        about="copying: normal. boundary: finishing a transaction. acquiring: becoming the "
        "only writer after a start. waiting: for a leader, a Spark slot or a retry. paused: by mm2 "
        "pause. halted, fenced: until an operator acts.",
        runbooks=("Mm2PartitionsNotReplicating", "Mm2PartitionsHalted"),
    ),
    Query(
        expr=f"sum by (flow, phase) (mm2_flow_partitions{_FLOW}) > 0",
        legend="{{flow}} {{phase}}",
    ),
    unit="short",
    stacked=True,
    whole=True,
)

LAG_RECORDS = graph(
    Text(
        title="Lag in records, top ten topics",
        about="If the lag grows, the source receives more records than are replicated. An "
        "upper bound if logs have gaps.",
        runbooks=("Mm2LagHigh", "Mm2TopicStalled"),
    ),
    Query(expr=f"topk(10, mm2:topic:lag_records{_TOPIC})", legend=_BY_TOPIC),
    unit="short",
)

LAG_SECONDS = graph(
    Text(
        title="Oldest unreplicated record, top ten topics",
        about="If a line rises by one second per second, no records of the topic are being "
        "replicated.",
        runbooks=("Mm2TopicStalled",),
    ),
    Query(expr=f"topk(10, mm2:topic:lag_seconds{_TOPIC})", legend=_BY_TOPIC),
    limit("freshness"),
    unit="s",
)

TOPICS = rows(
    Text(
        title="Topics",
        about="Sorted by age. 'data loss in': time until the source deletes the oldest "
        "unreplicated record.",
        unknown="unknown",
        runbooks=("Mm2DataLossImminent", "Mm2DataLossPredicted"),
    ),
    Column(
        expr=f"mm2:topic:lag_seconds{_TOPIC}",
        name="age",
        unit="s",
        steps=((None, GOOD), (30, WARN), (60, BAD)),
    ),
    Column(expr=f"mm2:topic:lag_records{_TOPIC}", name="lag"),
    Column(
        expr=f"sum by (flow, topic) (rate(mm2_replicated_records_total{_TOPIC}[5m]))",
        name="records/s",
    ),
    Column(
        expr=f"mm2:topic:time_to_data_loss_seconds{_TOPIC}",
        name="data loss in",
        unknown="no lag, or unknown",
        unit="s",
        steps=((None, BAD), (3600, WARN), (21600, GOOD)),
    ),
    labels=("flow", "topic"),
    span=WHOLE,
    by="age",
)

RECORDS = graph(
    Text(
        title="Records per second, top ten topics",
        about="Records acknowledged by the target.",
    ),
    Query(
        expr="topk(10, sum by (flow, topic) "
        f"(rate(mm2_replicated_records_total{_TOPIC}[$__rate_interval])))",
        legend=_BY_TOPIC,
    ),
    unit="short",
)

SIZE = graph(
    Text(
        title="Bytes per second, top ten topics",
        about="Compressed bytes of record batches that the target acknowledged.",
    ),
    Query(
        expr="topk(10, sum by (flow, topic) "
        f"(rate(mm2_replicated_bytes_total{_TOPIC}[$__rate_interval])))",
        legend=_BY_TOPIC,
    ),
    unit="Bps",
)


def _share(which: str) -> Query:
    return Query(
        expr=f"histogram_quantile({which}, sum by (flow, le) "
        f"(rate(mm2_replication_latency_seconds_bucket{_FLOW}[$__rate_interval])))",
        legend=f"{{{{flow}}}} p{float(which) * 100:g}",
    )


LATENCY = graph(
    Text(
        title="Replication latency",
        about="Time from the timestamp of a record until the target acknowledged its copy: "
        "median, 99th and 99.9th percentile, interpolated between histogram buckets.",
        unknown="no data: nothing replicated recently",
        runbooks=("Mm2LatencyBurnsFast",),
    ),
    _share("0.5"),
    _share("0.99"),
    _share("0.999"),
    unit="s",
)

PATHS = graph(
    Text(
        title="Batches per second, by path",
        about="pass-through: copied byte for byte. re-encoded: decoded and encoded again, "
        "which needs several times as much CPU time. The table below shows the "
        "reasons.",
    ),
    Query(
        expr=f"sum by (flow, path) (rate(mm2_replicated_batches_total{_TOPIC}[$__rate_interval]))",
        legend="{{flow}} {{path}}",
    ),
    unit="short",
    stacked=True,
)

OPENED = rows(
    Text(
        title="Partitions with re-encoded batches",
        about="Possible reasons: compaction gaps, filters, transforms, compression codecs, "
        "batch sizes. mm2 why TOPIC shows details.",
        unknown="none reported",
    ),
    Column(
        expr=f"sum by (flow, topic, reason) (mm2_reencoded_partitions{_TOPIC})", name="partitions"
    ),
    labels=("flow", "topic", "reason"),
    span=HALF,
    by="partitions",
)

STOPPED = rows(
    Text(
        title="Halted partitions",
        about="mm2 why TOPIC shows what happened, the offsets, and the command that "
        "resolves the halt.",
        unknown="none reported",
        runbooks=("Mm2PartitionsHalted",),
    ),
    Column(
        expr=f"sum by (flow, topic, reason) (mm2_halted_partitions{_TOPIC})",
        name="partitions",
        steps=((None, NEUTRAL), (1, BAD)),
    ),
    labels=("flow", "topic", "reason"),
    span=HALF,
    by="partitions",
)

INCIDENTS = rows(
    Text(
        title="Incidents",
        about="Lost and possibly duplicated records since the mm2 processes were started. "
        "mm2 incidents lists all incidents.",
        unknown="none reported",
        runbooks=("Mm2GapDetected", "Mm2DuplicatesPossible"),
    ),
    Column(
        expr=f"sum by (flow, topic, kind) (mm2_incidents_total{_TOPIC})",
        name="incidents",
        steps=((None, NEUTRAL), (1, WARN)),
    ),
    labels=("flow", "topic", "kind"),
    span=HALF,
    by="incidents",
)

REFUSED = graph(
    Text(
        title="Duplicates prevented, per minute",
        about="Records that a restart or a zombie writer would have duplicated, but that "
        "were detected. A few after a restart are normal, a constant rate is not.",
    ),
    Query(
        expr="60 * sum by (flow, topic) "
        f"(rate(mm2_duplicates_refused_total{_TOPIC}[$__rate_interval]))",
        legend=_BY_TOPIC,
    ),
    unit="short",
)

DELIVERY = graph(
    Text(
        title="Partitions with transactional or at-least-once delivery",
        about="in transactions: the records are old, and after a crash, read_uncommitted "
        "consumers may receive some of them twice. at least once: older writers "
        "cannot be fenced.",
        runbooks=("Mm2AtLeastOnce",),
    ),
    Query(
        expr=f"sum by (flow) (mm2_transactional_partitions{_TOPIC})",
        legend="{{flow}} in transactions",
    ),
    Query(expr=f"sum by (flow) (mm2_unfenced_partitions{_TOPIC})", legend="{{flow}} at least once"),
    unit="short",
    whole=True,
)

RESTARTS = graph(
    Text(
        title="Copy process restarts per hour",
        about="Restarts of copy processes that ended unexpectedly. Each restart interrupts "
        "replication of their partitions for a few seconds.",
        runbooks=("Mm2CopyProcessesRestarting",),
    ),
    Query(expr=f"sum by (flow) (increase(mm2_task_restarts_total{_FLOW}[1h]))"),
    unit="short",
    whole=True,
)

HEARTBEAT = graph(
    Text(
        title="Age of the newest heartbeat",
        about="Age of the newest heartbeat on the target. Empty if heartbeats are disabled.",
        unknown="no data: heartbeats disabled, or not reported",
        runbooks=("Mm2HeartbeatLost",),
    ),
    Query(expr=f"max by (flow) (mm2_heartbeat_age_seconds{_FLOW})"),
    limit("heartbeat"),
    unit="s",
    span=THIRD,
)

ROUND_TRIP = graph(
    Text(
        title="Heartbeat round trip",
        about="Time from writing a heartbeat to the source until the target acknowledged "
        "its copy: a latency that does not depend on other producers.",
        unknown="no data: heartbeats disabled, or not reported",
    ),
    Query(expr=f"max by (flow) (mm2_heartbeat_round_trip_seconds{_FLOW})"),
    unit="s",
    span=THIRD,
)

SKEW = graph(
    Text(
        title="Clock skew",
        about="Time by which record timestamps are in the future. Ages and lags in seconds "
        "are wrong by this amount.",
        runbooks=("Mm2ClockSkew",),
    ),
    Query(expr=f"max by (flow) (mm2_clock_skew_seconds{_FLOW})"),
    limit("clock_skew"),
    unit="s",
    span=THIRD,
)

BOARD = Board(
    uid="mm2-flow",
    title="mm2 flow",
    about="One flow: is it replicating, where does it lag, how fast is it, what is halted and why?",
    topics=True,
    rows=(
        Row(
            title="Is it replicating?",
            panels=(CROSSING, BEHIND, CATCHING_UP, STANDING, HELD, AGES, PHASES, COPIED),
        ),
        Row(title="Where does it lag?", panels=(LAG_SECONDS, LAG_RECORDS, TOPICS)),
        Row(title="Halted partitions, data loss, duplicates", panels=(STOPPED, INCIDENTS)),
        Row(title="How fast is it?", panels=(RECORDS, SIZE, LATENCY, PATHS)),
        Row(title="How is it replicated?", panels=(OPENED, DELIVERY, REFUSED, RESTARTS)),
        Row(title="Heartbeats and clocks", panels=(HEARTBEAT, ROUND_TRIP, SKEW)),
    ),
)
