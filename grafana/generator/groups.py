"""Consumer groups and offsets: where would they go on on the target, and how exactly?"""

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
        title="Groups that are followed",
        about="Groups of the source whose positions the last round has put down for the target. "
        "0 where groups are expected: look at groups and groups.exclude in clusters.yaml.",
        unknown="no data: checkpoints are off, or nobody tells",
    ),
    Query(expr=f"sum by (flow) (mm2_checkpointed_groups{_FLOW})"),
    unit="short",
    steps=((None, WARN), (1, GOOD)),
    span=FIFTH,
)

SYNC_AGE = number(
    Text(
        title="Since the last round",
        about="A group that moves goes on where it was then. Before the first round: since a task "
        "waits for it. Red beyond the limit.",
        unknown="no data: checkpoints are off, or nobody tells",
        runbooks=("Mm2CheckpointsStale", "Mm2CheckpointsMissing"),
    ),
    Query(expr=f"max by (flow) (mm2_checkpoint_age_seconds{_FLOW})"),
    unit="s",
    steps=((None, GOOD), (150, WARN), (300, BAD)),
    span=FIFTH,
)

MAP_AGE = number(
    Text(
        title="Map of offsets behind copies",
        about="The worst topic. So much groups that move now would read again. Red: do not fail "
        "over, if you can choose.",
        unknown="no data: nobody tells of a map",
        runbooks=("Mm2OffsetMapStale",),
    ),
    Query(expr=f"max by (flow) (mm2_offset_map_age_seconds{_FLOW})"),
    unit="s",
    steps=((None, GOOD), (30, WARN), (60, BAD)),
    span=FIFTH,
)

FOLLOWED_WELL = number(
    Text(
        title="May groups move?",
        about="The two conditions of the verdict that are about groups, for each flow. NO, too, "
        "where a round was told of within a day, and nobody tells any more.",
        unknown="no data: nobody tells of a flow",
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
        title="Held by an operator",
        about="Connectors that somebody paused or stopped over REST: of checkpoints, and groups "
        "are not followed; of heartbeats, and none are written to the flow's target. mm2 resume "
        "lets them go on.",
        unknown="nobody holds one, or no data",
        color=QUIET,
        runbooks=("Mm2ConnectorPausedOrStopped",),
    ),
    Query(
        expr=f"max by (flow, connector, override) (mm2_connector_override{_FLOW})",
        legend="{{flow}} {{connector}} {{override}}",
    ),
    unit="short",
    steps=((None, WARN),),
    words={"1": ("held", WARN)},
    span=WHOLE - 4 * FIFTH,
)

SYNC_AGES = graph(
    Text(
        title="Since the last round of checkpoints",
        about="A saw: it falls with each round. Teeth that grow: rounds take longer than the "
        "interval.",
        unknown="no data: checkpoints are off, or nobody tells",
        runbooks=("Mm2CheckpointsStale",),
    ),
    Query(expr=f"max by (flow) (mm2_checkpoint_age_seconds{_FLOW})"),
    limit("group_sync"),
    unit="s",
)

MAP_AGES = graph(
    Text(
        title="Map of offsets behind what is copied, the ten worst topics",
        about="A second or two is normal; 0 where it covers all that is copied.",
        unknown="no data: nobody tells of a map",
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
        title="Groups that are followed",
        about="A fall: groups were deleted, expired, or are excluded by now.",
        unknown="no data: checkpoints are off, or nobody tells",
    ),
    Query(expr=f"sum by (flow) (mm2_checkpointed_groups{_FLOW})"),
    unit="short",
    whole=True,
)

WRITTEN = graph(
    Text(
        title="Checkpoints written per minute",
        about="By MirrorCheckpointConnector, one for each group and partition whose place has "
        "changed. 0 while groups read: their positions do not arrive.",
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
        about="On the nodes that run them. MirrorCheckpointConnector follows groups, "
        "MirrorSourceConnector keeps the map.",
        unknown="no data: nobody tells of a connector",
        runbooks=("Mm2TaskFailed",),
    ),
    Column(expr=f"max by (flow, connector, status) (kafka_connect_connector_status{_FLOW})"),
    labels=("flow", "connector", "status"),
    span=HALF,
    by="flow",
)

COMMITS = graph(
    Text(
        title="How long committing offsets takes",
        about="Of the checkpoint tasks, to the offsets topic on the target. Seconds: the target "
        "is slow.",
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
    about="Where would consumer groups go on on the target, and how exactly?",
    topics=True,
    rows=(
        Row(title="May groups move?", panels=(FOLLOWED_WELL, SYNC_AGE, MAP_AGE, FOLLOWED, HELD)),
        Row(title="Since when?", panels=(SYNC_AGES, MAP_AGES)),
        Row(title="Who follows them?", panels=(CONNECTORS, GROUPS, WRITTEN, COMMITS)),
    ),
)
