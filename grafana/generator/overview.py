"""The first look: may one fail over, do flows run, is anything lost, are objectives held?"""

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
        about="Yes, where every condition of the table beside it holds. A condition that nobody "
        "tells of counts as not held, and so does a node that does not answer; groups count where "
        "checkpoints were made within a day. Before you move: mm2 failover --from … --to …, which "
        "changes nothing without --execute.",
        unknown="no data: nobody tells of a flow",
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
        about="What the verdict is made of. NO, or nobody tells: state and age of the flow are on "
        'this board, partitions and topics on "mm2 flow", what has failed on "mm2 workers and '
        'rebalances", offsets and groups on "mm2 groups and offsets". Where no '
        "topic is mirrored, nothing is fresh or mapped either.",
        unknown="no data: nobody tells of a flow",
        runbooks=("Mm2PartitionsNotReplicating", "Mm2TaskFailed", "Mm2CheckpointsMissing", "Mm2NothingToReplicate"),
    ),
    Column(expr=f"mm2:flow:failover_condition{_FLOW}", name="holds", steps=_FROM_1, words=_YES_NO),
    labels=("flow", "condition"),
    by="holds",
    least_first=True,
)

NODES = number(
    Text(
        title="Nodes",
        about="How many answer, of those that Prometheus is told to scrape, as job mm2. With "
        "fewer than there are, what the others show may be a part of it.",
        unknown="no data: nothing is scraped as job mm2",
        runbooks=("Mm2NodeDown", "Mm2Absent"),
    ),
    Query(expr='sum(up{job="mm2"}) / count(up{job="mm2"})', legend="nodes"),
    unit="percentunit",
    steps=_FROM_1,
)

PAGES = number(
    Text(
        title="Pages",
        about="Alerts that wake somebody: how many fire now. It is 0 only where Prometheus "
        "evaluates the rules of mm2.",
        unknown="no data: the rules are not loaded",
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
        about="The verdict of mm2 status, of the status page and of /health/replicating: records "
        "are replicated, and nothing needs an operator. NO also while an operator has paused or "
        "stopped the flow, and while it starts. mm2 status says why.",
        unknown="no data: the verdict is unknown",
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
        about="Does a broker of the source and of the target answer every node? NO once none of "
        "them has for 10 seconds: then the lag of the flow is unknown.",
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
        about="Does a node have the flow in state RUNNING? FAILED where one has given it up, "
        "whatever the others do; held: an operator has paused or stopped it. mm2 status says why.",
        unknown="no data: nobody tells of a flow",
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
        "2": ("held", WARN),
        "3": ("FAILED", BAD),
    },
    span=_STATES,
)

AGE = number(
    Text(
        title="Age of the mirror",
        about="The oldest record that is not copied, or how long nothing has crossed: so much is "
        "lost if the source is lost now. Red beyond the objective.",
        unknown="no data: age is not known",
        runbooks=("Mm2FlowStalled", "Mm2FreshnessBurnsFast", "Mm2MirrorAgeUnknown"),
    ),
    Query(expr=f"mm2:flow:age_seconds{_FLOW}"),
    unit="s",
    steps=((None, GOOD), (30, WARN), (60, BAD)),
    span=_NARROW,
)

LAG_RECORDS = number(
    Text(
        title="Records to copy",
        about="Source last stable offset minus next offset to copy, an upper bound where the log "
        "has gaps. It says little without its age.",
        unknown="no data: lag is not known",
        runbooks=("Mm2LagHigh",),
    ),
    Query(expr=f"mm2:flow:lag_records{_FLOW}"),
    unit="short",
    steps=((None, NEUTRAL),),
    span=_NARROW,
)

NOT_COPIED = number(
    Text(
        title="Partitions that are not copied",
        about="Of those that were handed out: they wait, find their place, stand still, or nobody "
        "tells of them. Some for a while after a start or a rebalance; 0 is well, where a topic is "
        "mirrored.",
        unknown="no data: nobody hands out partitions",
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
        title="Partitions that stand still",
        about="Until somebody acts: mm2 why TOPIC says what was found, and the way on. 0 is well.",
        unknown="no data: no partition is told of",
        runbooks=("Mm2PartitionsHalted",),
    ),
    Query(expr='sum by (flow) (mm2_flow_partitions{flow=~"$flow", phase=~"stopped|fenced"})'),
    unit="short",
    steps=_NONE_IS_WELL,
    span=_NARROW,
)

AGES = graph(
    Text(
        title="Age of the mirror",
        about="Below the dashed line the objective is held. A line that ends: nobody tells any "
        "more.",
        runbooks=("Mm2FlowStalled", "Mm2LagHigh"),
    ),
    Query(expr=f"mm2:flow:age_seconds{_FLOW}"),
    limit("freshness"),
    unit="s",
)

THROUGHPUT = graph(
    Text(
        title="Bytes per second",
        about="Of record batches, as compressed, that targets have acknowledged. Flat at 0 with "
        "records to copy: look at the board of the flow.",
    ),
    Query(expr='sum by (flow) (rate(mm2_replicated_bytes_total{flow=~"$flow"}[$__rate_interval]))'),
    unit="Bps",
)

LOSS = number(
    Text(
        title="Until the source deletes",
        about="The least of all topics: when the source deletes the oldest record not copied, if "
        "nothing is copied until then. Short retention makes it short, also where all is well.",
        unknown="nothing waits, or not known",
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
        about="What was lost, may stand twice or could not be ruled out, since the processes "
        "began. mm2 incidents lists all there ever were, with their offsets.",
        unknown="none is told of",
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
        title="Copied at least once",
        about="Partitions where no transactional id may be used: restarts may copy records twice. "
        "mm2 probe says what lacks.",
        unknown="no data: no partition is told of",
        runbooks=("Mm2AtLeastOnce",),
    ),
    Query(expr=f"sum by (flow) (mm2_unfenced_partitions{_FLOW})"),
    unit="short",
    steps=((None, GOOD), (1, WARN)),
    span=HALF,
)

BUDGET = number(
    Text(
        title="Left of the month's budget",
        about="The mirror may be too old for 0.1 % of 30 days: 43 minutes. Below 0 the objective "
        "is missed; -100 % is that or worse. Days of which nothing is recorded do not count.",
        unknown="less than a day is recorded, or no data",
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
        title="How fast the budget burns",
        about="1 uses it up in 30 days. Over 14.4 for an hour, or 6 for six hours, somebody is "
        "woken.",
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
        title="Records that take longer than 10 s",
        about="From their timestamp until the target has acknowledged them; 1 % is allowed. "
        "Records that were old when they were produced count, too.",
        unknown="no data: nothing was copied lately",
        runbooks=("Mm2LatencyBurnsFast", "Mm2LatencyBurns"),
    ),
    Query(expr=f"mm2:flow:slow_ratio5m{_FLOW}", legend="{{flow}}, 5 min"),
    Query(expr=f"mm2:flow:slow_ratio1h{_FLOW}", legend="{{flow}}, 1 h"),
    unit="percentunit",
)

DRILL = number(
    Text(
        title="Since the last drill that passed",
        about="From the report that drill.report in clusters.yaml names. What is not rehearsed "
        "does not work by night; without a drill the days count since the flow is known.",
        unknown="no data: drill.report names no file",
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
    about="The first look: may one fail over, do flows run, is anything lost?",
    rows=(
        Row(title="May we fail over?", panels=(READY, PAGES, NODES, CONDITIONS, AGES)),
        Row(
            title="Do flows run, and how old are mirrors?",
            panels=(
                *(HEALTHY, CLUSTERS, STATE, AGE, LAG_RECORDS, NOT_COPIED, STANDING),
                *(THROUGHPUT, SLOW),
            ),
        ),
        Row(title="Is anything lost or doubled?", panels=(LOSS, UNFENCED, INCIDENTS)),
        Row(title="Are objectives held?", panels=(BUDGET, BURN)),
        Row(title="Are we prepared?", panels=(DRILL,)),
    ),
)
