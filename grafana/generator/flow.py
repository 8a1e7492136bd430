"""One flow: does it move, where is it behind, how fast is it, what stands still and why."""

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
        title="Nothing has crossed for",
        about="Neither data nor a heartbeat; a flow that has nothing to copy, and whose source "
        "answers, counts as crossing. Red beyond the objective.",
        unknown="no data: nobody tells of the flow",
        runbooks=("Mm2FlowStalled",),
    ),
    Query(expr=f"max by (flow) (mm2_flow_last_replication_age_seconds{_FLOW})"),
    unit="s",
    steps=((None, GOOD), (30, WARN), (60, BAD)),
    span=FIFTH,
)

BEHIND = number(
    Text(
        title="Oldest record not copied",
        about="Its age, the worst topic's; 0 where there is none.",
        unknown="no data: lag is not known",
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
        about="At the rate of the last ten minutes. Without a figure the lag does not shrink: "
        "there is none, or it grows; the graphs below tell which.",
        unknown="not shrinking, or no data",
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
        title="Partitions that stand still",
        about="Until somebody acts. 0 is well; the table below says which, and why.",
        unknown="no data: no partition is told of",
        runbooks=("Mm2PartitionsHalted",),
    ),
    Query(expr='sum by (flow) (mm2_flow_partitions{flow=~"$flow", phase=~"stopped|fenced"})'),
    unit="short",
    steps=((None, GOOD), (1, BAD)),
    span=FIFTH,
)

COPIED = graph(
    Text(
        title="Partitions given to tasks, and copied",
        about="Apart: some wait, stand still, or went with the node that had them.",
    ),
    Query(expr=f"max by (flow) (mm2_flow_assigned_partitions{_FLOW})", legend="{{flow}} handed out"),
    Query(expr=f"sum by (flow) (mm2_flow_partitions{_COPIED})", legend="{{flow}} copied"),
    unit="short",
    span=WHOLE,
    whole=True,
)

HELD = number(
    Text(
        title="Held by an operator",
        about="paused: mm2 pause. stopped: mm2 failover, or REST. mm2 resume lets it go on.",
        unknown="nobody holds it, or no data",
        color=QUIET,
        runbooks=("Mm2FlowPausedOrStopped",),
    ),
    Query(expr=f"max by (flow, override) (mm2_flow_override{_FLOW})", legend="{{flow}} {{override}}"),
    unit="short",
    steps=((None, WARN),),
    words={"1": ("held", WARN)},
    span=WHOLE - 4 * FIFTH,
)

AGES = graph(
    Text(
        title="Age of the mirror",
        about="The oldest record not copied, or how long nothing has crossed. Below the dashed "
        "line the objective is held.",
        runbooks=("Mm2FreshnessBurnsFast",),
    ),
    Query(expr=f"mm2:flow:age_seconds{_FLOW}"),
    limit("freshness"),
    unit="s",
)

PHASES = graph(
    Text(
        title="Partitions by what they do",
        about="copying is well. taking: finding their place after a start. waiting: for a "
        "leader, a slot or a try again. paused: mm2 pause. stopped, fenced: until somebody acts.",
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
        title="Records to copy, the ten topics with the most",
        about="Rising: more comes than is copied. An upper bound where logs have gaps.",
        runbooks=("Mm2LagHigh", "Mm2TopicStalled"),
    ),
    Query(expr=f"topk(10, mm2:topic:lag_records{_TOPIC})", legend=_BY_TOPIC),
    unit="short",
)

LAG_SECONDS = graph(
    Text(
        title="Oldest record not copied, the ten oldest topics",
        about="A straight line that rises a second each second: nothing of that topic is copied.",
        runbooks=("Mm2TopicStalled",),
    ),
    Query(expr=f"topk(10, mm2:topic:lag_seconds{_TOPIC})", legend=_BY_TOPIC),
    limit("freshness"),
    unit="s",
)

TOPICS = rows(
    Text(
        title="Topics",
        about="Sorted by age. 'lost in' is when the source deletes the oldest record not copied, "
        "if nothing is copied until then.",
        unknown="not known",
        runbooks=("Mm2DataLossImminent", "Mm2DataLossPredicted"),
    ),
    Column(
        expr=f"mm2:topic:lag_seconds{_TOPIC}",
        name="age",
        unit="s",
        steps=((None, GOOD), (30, WARN), (60, BAD)),
    ),
    Column(expr=f"mm2:topic:lag_records{_TOPIC}", name="to copy"),
    Column(
        expr=f"sum by (flow, topic) (rate(mm2_replicated_records_total{_TOPIC}[5m]))",
        name="records/s",
    ),
    Column(
        expr=f"mm2:topic:time_to_data_loss_seconds{_TOPIC}",
        name="lost in",
        unknown="nothing waits, or not known",
        unit="s",
        steps=((None, BAD), (3600, WARN), (21600, GOOD)),
    ),
    labels=("flow", "topic"),
    span=WHOLE,
    by="age",
)

RECORDS = graph(
    Text(
        title="Records per second, the ten busiest topics",
        about="That the target has acknowledged.",
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
        title="Bytes per second, the ten busiest topics",
        about="Of record batches, as compressed, that the target has acknowledged.",
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
        title="Latency of records",
        about="From their timestamp until the target has acknowledged them: half of them, and "
        "all but 1 % and 0.1 %, take at most so long. Between the bounds of buckets it is "
        "a guess.",
        unknown="no data: nothing was copied lately",
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
        about="passed: as they came. opened: their records were written anew, which costs "
        "several times as much; the table beside says why.",
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
        title="Partitions whose batches are opened",
        about="And why: gaps of compaction, filters or transforms, codecs, sizes. mm2 why TOPIC "
        "says more.",
        unknown="none is told of",
    ),
    Column(expr=f"sum by (flow, topic, reason) (mm2_reencoded_partitions{_TOPIC})", name="partitions"),
    labels=("flow", "topic", "reason"),
    span=HALF,
    by="partitions",
)

STOPPED = rows(
    Text(
        title="What stands still",
        about="mm2 why TOPIC says what was found, at which offsets, and the command that goes on.",
        unknown="none is told of",
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
        about="What was lost, may stand twice or could not be ruled out, since the processes "
        "began.",
        unknown="none is told of",
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
        title="Duplicates refused, per minute",
        about="Records that a restart or a frozen twin would have doubled, and did not. After a "
        "restart some are normal; a steady rate is not.",
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
        title="Partitions not copied the plain way",
        about="in transactions: their records are old, and readers of uncommitted data may see "
        "some twice after a crash. at least once: nobody can be fenced there.",
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
        title="Copies started again, per hour",
        about="Copies that ended unasked. Each time their partitions stand still for seconds.",
        runbooks=("Mm2CopyProcessesRestarting",),
    ),
    Query(expr=f"sum by (flow) (increase(mm2_task_restarts_total{_FLOW}[1h]))"),
    unit="short",
    whole=True,
)

HEARTBEAT = graph(
    Text(
        title="Age of the newest heartbeat",
        about="On the target. Empty where heartbeats are off.",
        unknown="no data: heartbeats are off, or nobody tells",
        runbooks=("Mm2HeartbeatLost",),
    ),
    Query(expr=f"max by (flow) (mm2_heartbeat_age_seconds{_FLOW})"),
    limit("heartbeat"),
    unit="s",
    span=THIRD,
)

ROUND_TRIP = graph(
    Text(
        title="Round trip of heartbeats",
        about="From writing one at the source until it was read on the target: latency that does "
        "not depend on anybody's producers.",
        unknown="no data: heartbeats are off, or nobody tells",
    ),
    Query(expr=f"max by (flow) (mm2_heartbeat_round_trip_seconds{_FLOW})"),
    unit="s",
    span=THIRD,
)

SKEW = graph(
    Text(
        title="Clocks differ by",
        about="As far as records with timestamps of the future show it. All ages are wrong by as "
        "much.",
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
    about="One flow: does it move, where is it behind, how fast is it, what stands still and why?",
    topics=True,
    rows=(
        Row(
            title="Does it move?",
            panels=(CROSSING, BEHIND, CATCHING_UP, STANDING, HELD, AGES, PHASES, COPIED),
        ),
        Row(title="Where is it behind?", panels=(LAG_SECONDS, LAG_RECORDS, TOPICS)),
        Row(title="What stands still, was lost or doubled?", panels=(STOPPED, INCIDENTS)),
        Row(title="How fast is it?", panels=(RECORDS, SIZE, LATENCY, PATHS)),
        Row(title="How is it copied?", panels=(OPENED, DELIVERY, REFUSED, RESTARTS)),
        Row(title="Heartbeats and clocks", panels=(HEARTBEAT, ROUND_TRIP, SKEW)),
    ),
)
