"""Dashboard of consumer groups: checkpoints, offset map, and readiness to move groups."""

from __future__ import annotations

from grafana.generator.board import Board, Row
from grafana.generator.panels import (
    BAD,
    FIFTH,
    GOOD,
    HALF,
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
_TOPIC = '{flow=~"$flow", topic=~"$topic"}'
_CHECKPOINTS = '{flow=~"$flow", connector="MirrorCheckpointConnector"}'

FOLLOWED = number(
    Text(
        title="Groups with checkpoints",
        about="Consumer groups for which the last round wrote checkpoints. If it is 0 "
        "although groups exist, check groups and groups.exclude in clusters.yaml.",
        unknown="no data: checkpoints disabled, or not reported",
    ),
    Query(expr=f"sum by (flow) (mm2_checkpointed_groups{_FLOW})"),
    unit="short",
    steps=((None, WARN), (1, GOOD)),
    span=FIFTH,
)

SYNC_AGE = number(
    Text(
        title="Age of checkpoints",
        about="Time since the last complete round of checkpoints, or since the start of the "
        "task if no round was completed. A group that fails over now resumes at its "
        "position of that time. Red above the limit.",
        unknown="no data: checkpoints disabled, or not reported",
        runbooks=("Mm2CheckpointsStale", "Mm2CheckpointsMissing"),
    ),
    Query(expr=f"max by (flow) (mm2_checkpoint_age_seconds{_FLOW})"),
    unit="s",
    steps=((None, GOOD), (150, WARN), (300, BAD)),
    span=FIFTH,
)

MAP_AGE = number(
    Text(
        title="Offset map lag",
        about="Lag of the offset map behind replication, for the topic with the largest "
        "lag. Groups that fail over now re-read the records of this period. Red: "
        "avoid a failover.",
        unknown="no data: no offset map reported",
        runbooks=("Mm2OffsetMapStale",),
    ),
    Query(expr=f"max by (flow) (mm2_offset_map_age_seconds{_FLOW})"),
    unit="s",
    steps=((None, GOOD), (30, WARN), (60, BAD)),
    span=FIFTH,
)

FOLLOWED_WELL = number(
    Text(
        title="Safe to move groups?",
        about="Whether the two failover conditions for consumer groups are met: the offset "
        "map and the checkpoints are current. Also NO if checkpoints were reported "
        "within the last day but are not reported now.",
        unknown="no data: no node reports a flow",
        runbooks=("Mm2CheckpointsStale", "Mm2OffsetMapStale"),
    ),
    Query(
        expr="min by (flow) (mm2:flow:failover_condition"
        '{flow=~"$flow", condition=~"offset map is current|checkpoints are current"})'
    ),
    unit="short",
    steps=((None, BAD), (1, GOOD)),
    words={"1": ("yes", GOOD), "0": ("NO", BAD)},
    span=FIFTH,
)

HELD = number(
    Text(
        title="Paused or stopped connectors",
        about="Connectors that an operator paused or stopped through the REST API. While "
        "MirrorCheckpointConnector is paused, no checkpoints are written; while "
        "MirrorHeartbeatConnector is paused, no heartbeats are written to the target. "
        "mm2 resume resumes them.",
        unknown="none, or no data",
        color=QUIET,
        runbooks=("Mm2ConnectorPausedOrStopped",),
    ),
    Query(
        expr=f"max by (flow, connector, override) (mm2_connector_override{_FLOW})",
        legend="{{flow}} {{connector}} {{override}}",
    ),
    unit="short",
    steps=((None, WARN),),
    words={"1": ("active", WARN)},
    span=WHOLE - 4 * FIFTH,
)

SYNC_AGES = graph(
    Text(
        title="Age of checkpoints",
        about="Drops to 0 with each complete round. If the peaks grow, a round takes longer "
        "than the interval.",
        unknown="no data: checkpoints disabled, or not reported",
        runbooks=("Mm2CheckpointsStale",),
    ),
    Query(expr=f"max by (flow) (mm2_checkpoint_age_seconds{_FLOW})"),
    limit("checkpoints"),
    unit="s",
)

MAP_AGES = graph(
    Text(
        title="Offset map lag, top ten topics",
        about="Normal: one or two seconds, or 0 if the map covers all replicated records.",
        unknown="no data: no offset map reported",
        runbooks=("Mm2OffsetMapStale",),
    ),
    Query(
        expr=f"topk(10, max by (flow, topic) (mm2_offset_map_age_seconds{_TOPIC}))",
        legend="{{flow}} {{topic}}",
    ),
    limit("offset_map"),
    unit="s",
)

GROUPS = graph(
    Text(
        title="Groups with checkpoints",
        about="A drop means that groups were deleted, have expired, or are excluded now.",
        unknown="no data: checkpoints disabled, or not reported",
    ),
    Query(expr=f"sum by (flow) (mm2_checkpointed_groups{_FLOW})"),
    unit="short",
    whole=True,
)

WRITTEN = graph(
    Text(
        title="Checkpoints written per minute",
        about="Checkpoints that MirrorCheckpointConnector writes: one per group and "
        "partition whose position has changed. If it is 0 while groups consume, their "
        "positions do not reach the target.",
        unknown="no data: no checkpoint task runs",
    ),
    Query(
        expr="60 * sum by (flow) (rate(kafka_connect_source_task_source_record_write_total"
        f"{_CHECKPOINTS}[$__rate_interval]))"
    ),
    unit="short",
)

CONNECTORS = rows(
    Text(
        title="Connectors",
        about="State of the connectors on the nodes that run them. "
        "MirrorCheckpointConnector writes checkpoints, MirrorSourceConnector "
        "maintains the offset map.",
        unknown="no data: no connectors reported",
        runbooks=("Mm2TaskFailed",),
    ),
    Column(expr=f"max by (flow, connector, status) (kafka_connect_connector_status{_FLOW})"),
    labels=("flow", "connector", "status"),
    span=HALF,
    by="flow",
)

COMMITS = graph(
    Text(
        title="Offset commit time",
        about="Average time in which checkpoint tasks commit offsets to the offsets topic "
        "on the target. Several seconds mean that the target is slow.",
        unknown="no data: no checkpoint task runs",
    ),
    Query(
        expr=f"max by (flow) (kafka_connect_connector_task_offset_commit_avg_time_ms{_CHECKPOINTS})"
    ),
    unit="ms",
)

BOARD = Board(
    uid="mm2-groups",
    title="mm2 groups and offsets",
    about="Where would consumer groups resume on the target, and how current are these positions?",
    topics=True,
    rows=(
        Row(
            title="Readiness to move groups",
            panels=(FOLLOWED_WELL, SYNC_AGE, MAP_AGE, FOLLOWED, HELD),
        ),
        Row(title="History", panels=(SYNC_AGES, MAP_AGES)),
        Row(title="Checkpoint connectors", panels=(CONNECTORS, GROUPS, WRITTEN, COMMITS)),
    ),
)
