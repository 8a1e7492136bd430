"""Overview dashboard: failover readiness, state of the flows, data loss, objectives."""

from __future__ import annotations

from grafana.generator.board import Board, Row
from grafana.generator.panels import (
    BAD,
    FIFTH,
    GOOD,
    HALF,
    NEUTRAL,
    QUARTER,
    QUIET,
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
_YES_NO = {"1": ("yes", GOOD), "0": ("NO", BAD)}
_FROM_1 = ((None, BAD), (1, GOOD))
_NONE_IS_WELL = ((None, GOOD), (1, BAD))
_NARROW = 4
_STATES = WHOLE - 3 * _NARROW - FIFTH

READY = number(
    Text(
        title="Safe to fail over?",
        about="Yes if all conditions in the adjacent table are met. An unknown condition, "
        "or a node that does not respond, counts as not met. The condition for "
        "checkpoints applies only if checkpoints were written within the last day. "
        "Before a failover, run mm2 failover --from … --to …. It changes nothing "
        "without --execute.",
        unknown="no data: no node reports a flow",
        runbooks=("Mm2Absent", "Mm2FlowUnreported"),
    ),
    Query(expr=f"mm2:flow:failover_ready{_FLOW}"),
    unit="short",
    steps=_FROM_1,
    words=_YES_NO,
    span=HALF,
)

CONDITIONS = rows(
    Text(
        title="Conditions",
        about="The conditions of the verdict. To find the cause of a NO: state and age of "
        'the flow are on this dashboard, partitions and topics on "mm2 flow", failed '
        'tasks on "mm2 workers and rebalances", offsets and checkpoints on "mm2 '
        'groups and offsets". A flow without topics is never safe to fail over, '
        "because it has neither a fresh mirror nor an offset map.",
        unknown="no data: no node reports a flow",
        runbooks=(
            "Mm2PartitionsNotReplicating",
            "Mm2TaskFailed",
            "Mm2CheckpointsMissing",
            "Mm2NothingToReplicate",
        ),
    ),
    Column(expr=f"mm2:flow:failover_condition{_FLOW}", name="met", steps=_FROM_1, words=_YES_NO),
    labels=("flow", "condition"),
    by="met",
    least_first=True,
)

NODES = number(
    Text(
        title="Nodes up",
        about="Share of the scrape targets of job mm2 that respond. If a node does not "
        "respond, the other panels may not show all flows.",
        unknown="no data: no scrape targets in job mm2",
        runbooks=("Mm2NodeDown", "Mm2Absent"),
    ),
    Query(expr='sum(up{job="mm2"}) / count(up{job="mm2"})', legend="nodes"),
    unit="percentunit",
    steps=_FROM_1,
)

PAGES = number(
    Text(
        title="Firing pages",
        about="Firing alerts with severity page. A value of 0 confirms that Prometheus "
        "evaluates the rules of mm2; otherwise there is no data.",
        unknown="no data: rules not loaded",
    ),
    Query(
        expr='count(ALERTS{alertname=~"Mm2.*", alertstate="firing", severity="page"}) '
        "or 0 * count(mm2:limit:seconds)",
        legend="alerts",
    ),
    unit="short",
    steps=_NONE_IS_WELL,
)

HEALTHY = number(
    Text(
        title="Healthy",
        about="The same verdict as in mm2 status, on the status page and at "
        "/health/replicating: records are being replicated, and no operator needs to "
        "act. Also NO while the flow is paused, stopped or starting. mm2 status shows "
        "the reason.",
        unknown="no data: verdict unknown",
        runbooks=("Mm2FlowStalled", "Mm2FlowPausedOrStopped"),
    ),
    Query(expr=f"min by (flow) (mm2_flow_healthy{_FLOW})"),
    unit="short",
    steps=_FROM_1,
    words=_YES_NO,
    span=HALF,
)

CLUSTERS = number(
    Text(
        title="Clusters reachable",
        about="Whether at least one broker of the cluster responds to every node. NO after "
        "10 seconds without a response: the lag of the flow is then unknown.",
        unknown="no data: no node reports a flow",
        runbooks=("Mm2ClusterUnreachable",),
    ),
    Query(
        expr=f"min by (flow, side) (mm2_flow_cluster_reachable{_FLOW})", legend="{{flow}} {{side}}"
    ),
    unit="short",
    steps=_FROM_1,
    words=_YES_NO,
    span=HALF,
)

STATE = number(
    Text(
        title="State",
        about="RUNNING: on at least one node. FAILED: at least one node no longer restarts "
        "the flow, even if other nodes run it. paused or stopped: by an operator or a "
        "failover. mm2 status shows the reason.",
        unknown="no data: no node reports a flow",
        runbooks=("Mm2FlowNotRunning", "Mm2FlowFailed", "Mm2FlowPausedOrStopped", "Mm2FlowRemoved"),
    ),
    Query(
        expr='max by (flow) (mm2_flow_state{flow=~"$flow", state="RUNNING"} '
        f"or 2 * mm2_flow_override{_FLOW} "
        'or 3 * mm2_flow_state{flow=~"$flow", state="FAILED"})'
    ),
    unit="short",
    steps=((None, BAD), (1, GOOD), (2, WARN), (3, BAD)),
    words={
        "0": ("not running", BAD),
        "1": ("RUNNING", GOOD),
        "2": ("paused or stopped", WARN),
        "3": ("FAILED", BAD),
    },
    span=_STATES,
)

AGE = number(
    Text(
        title="Age of the mirror",
        about="Age of the oldest unreplicated record, or time since the last replication: "
        "if the source is lost now, data of this period may be lost. Red if the "
        "objective is missed.",
        unknown="no data: age unknown",
        runbooks=("Mm2FlowStalled", "Mm2FreshnessBurnsFast", "Mm2MirrorAgeUnknown"),
    ),
    Query(expr=f"mm2:flow:age_seconds{_FLOW}"),
    unit="s",
    steps=((None, GOOD), (30, WARN), (60, BAD)),
    span=_NARROW,
)

LAG_RECORDS = number(
    Text(
        title="Lag in records",
        about="Last stable offset of the source minus next offset to replicate; an upper "
        "bound if the log has gaps. Compare it with the age of the mirror.",
        unknown="no data: lag unknown",
        runbooks=("Mm2LagHigh",),
    ),
    Query(expr=f"mm2:flow:lag_records{_FLOW}"),
    unit="short",
    steps=((None, NEUTRAL),),
    span=_NARROW,
)

NOT_COPIED = number(
    Text(
        title="Partitions not replicating",
        about="Assigned partitions that are waiting, being acquired, halted, or not "
        "reported by any node. Normal: 0, except for a short time after a start or "
        "rebalance.",
        unknown="no data: no assignment reported",
        runbooks=("Mm2PartitionsNotReplicating", "Mm2PartitionsHalted"),
    ),
    Query(
        expr=f"max by (flow) (mm2_flow_assigned_partitions{_FLOW}) "
        '- sum by (flow) (mm2_flow_partitions{flow=~"$flow", phase=~"copying|boundary"})'
    ),
    unit="short",
    steps=((None, BAD), (0, GOOD), (1, WARN)),
    span=FIFTH,
)

STANDING = number(
    Text(
        title="Halted partitions",
        about="Partitions that are halted or fenced until an operator acts. mm2 why TOPIC "
        "shows the reason and the remedy. Normal: 0.",
        unknown="no data: no partitions reported",
        runbooks=("Mm2PartitionsHalted",),
    ),
    Query(expr='sum by (flow) (mm2_flow_partitions{flow=~"$flow", phase=~"halted|fenced"})'),
    unit="short",
    steps=_NONE_IS_WELL,
    span=_NARROW,
)

AGES = graph(
    Text(
        title="Age of the mirror",
        about="Below the dashed line, the objective is met. If a line ends, no node reports "
        "the flow any more.",
        runbooks=("Mm2FlowStalled", "Mm2LagHigh"),
    ),
    Query(expr=f"mm2:flow:age_seconds{_FLOW}"),
    limit("freshness"),
    unit="s",
)

THROUGHPUT = graph(
    Text(
        title="Bytes per second",
        about="Compressed bytes of record batches that the targets acknowledged. If it is 0 "
        'while there is lag, see the dashboard "mm2 flow".',
    ),
    Query(expr='sum by (flow) (rate(mm2_replicated_bytes_total{flow=~"$flow"}[$__rate_interval]))'),
    unit="Bps",
)

LOSS = number(
    Text(
        title="Time to data loss",
        about="Time until the source deletes the oldest unreplicated record: the minimum of "
        "all topics. With a short retention, the value is low even if replication "
        "works normally.",
        unknown="no lag, or unknown",
        color=QUIET,
        runbooks=("Mm2DataLossImminent", "Mm2DataLossPredicted"),
    ),
    Query(expr=f"min by (flow) (mm2:topic:time_to_data_loss_seconds{_FLOW})"),
    unit="s",
    steps=((None, BAD), (3600, WARN), (21600, GOOD)),
    span=HALF,
)

INCIDENTS = rows(
    Text(
        title="Incidents",
        about="Lost and possibly duplicated records since the mm2 processes were started. "
        "mm2 incidents lists all incidents with their offsets.",
        unknown="none reported",
        runbooks=("Mm2GapDetected", "Mm2DuplicatesPossible"),
    ),
    Column(
        expr=f"sum by (flow, topic, kind) (mm2_incidents_total{_FLOW})",
        name="incidents",
        steps=((None, NEUTRAL), (1, WARN)),
    ),
    labels=("flow", "topic", "kind"),
    by="incidents",
    span=WHOLE,
)

UNFENCED = number(
    Text(
        title="Partitions with at-least-once delivery",
        about="Partitions whose older writers cannot be fenced, so that a restart may "
        "duplicate records. mm2 probe names the missing permission.",
        unknown="no data: no partitions reported",
        runbooks=("Mm2AtLeastOnce",),
    ),
    Query(expr=f"sum by (flow) (mm2_unfenced_partitions{_FLOW})"),
    unit="short",
    steps=((None, GOOD), (1, WARN)),
    span=HALF,
)

BUDGET = number(
    Text(
        title="Error budget left",
        about="The objective allows a stale mirror during 0.1 % of 30 days: 43 minutes. "
        "Below 0, the objective is missed; -100 % means -100 % or less. Periods "
        "without data are not counted.",
        unknown="less than a day of data",
        runbooks=("Mm2FreshnessBurnsSlowly",),
    ),
    Query(
        expr=f"clamp_min(1 - mm2:flow:stale_ratio30d{_FLOW} / 0.001, -1) "
        "and on (flow) mm2:flow:known1d"
    ),
    unit="percentunit",
    steps=((None, BAD), (0, WARN), (0.5, GOOD)),
)

BURN = graph(
    Text(
        title="Error budget burn rate",
        about="At a rate of 1, the error budget lasts 30 days. Alerts page at a rate above "
        "14.4 over one hour, or above 6 over six hours.",
        runbooks=("Mm2FreshnessBurnsFast", "Mm2FreshnessBurns"),
    ),
    Query(expr=f"mm2:flow:stale_ratio1h{_FLOW} / 0.001", legend="{{flow}}, 1 h"),
    Query(expr=f"mm2:flow:stale_ratio6h{_FLOW} / 0.001", legend="{{flow}}, 6 h"),
    Query(expr=f"mm2:flow:stale_ratio3d{_FLOW} / 0.001", legend="{{flow}}, 3 d"),
    unit="short",
    span=WHOLE - QUARTER,
)

SLOW = graph(
    Text(
        title="Records slower than 10 s",
        about="Share of records that the target acknowledged later than 10 s after their "
        "timestamp; 1 % is allowed. Includes records that were already old when they "
        "were produced.",
        unknown="no data: nothing replicated recently",
        runbooks=("Mm2LatencyBurnsFast", "Mm2LatencyBurns"),
    ),
    Query(expr=f"mm2:flow:slow_ratio5m{_FLOW}", legend="{{flow}}, 5 min"),
    Query(expr=f"mm2:flow:slow_ratio1h{_FLOW}", legend="{{flow}}, 1 h"),
    unit="percentunit",
)

DRILL = number(
    Text(
        title="Time since the last successful drill",
        about="From the report file that drill.report in clusters.yaml specifies. If no "
        "drill was successful yet, the time since the flow was first seen.",
        unknown="no data: drill.report not configured",
        runbooks=("Mm2DrillOverdue",),
    ),
    Query(
        expr=f"time() - (max by (flow) (mm2_last_drill_timestamp_seconds{_FLOW}) "
        f"or on (flow) mm2:flow:known_since_timestamp_seconds{_FLOW}) "
        "and on (flow) mm2_drill_report_configured"
    ),
    unit="s",
    steps=((None, GOOD), (5184000, WARN), (7776000, BAD)),
    span=HALF,
)

BOARD = Board(
    uid="mm2-overview",
    title="mm2 overview",
    about="Start here: is a failover safe, are all flows running, is data at risk, are objectives "
    "met?",
    rows=(
        Row(title="Failover readiness", panels=(READY, PAGES, NODES, CONDITIONS, AGES)),
        Row(
            title="State of the flows and age of their mirrors",
            panels=(
                *(HEALTHY, CLUSTERS, STATE, AGE, LAG_RECORDS, NOT_COPIED, STANDING),
                *(THROUGHPUT, SLOW),
            ),
        ),
        Row(title="Data loss and duplicates", panels=(LOSS, UNFENCED, INCIDENTS)),
        Row(title="Objectives", panels=(BUDGET, BURN)),
        Row(title="Failover drills", panels=(DRILL,)),
    ),
)
