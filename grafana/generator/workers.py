"""Nodes, their Connect workers, tasks and rebalances."""

from __future__ import annotations

from grafana.generator.board import Board, Row
from grafana.generator.panels import (
    BAD,
    GOOD,
    HALF,
    THIRD,
    WARN,
    Column,
    Query,
    Text,
    graph,
    number,
    rows,
)

_FLOW = '{flow=~"$flow"}'
_HERE = "{{flow}} {{instance}}"

NODES = number(
    Text(
        title="Nodes",
        about="Does each answer Prometheus? Others take over what a lost one did.",
        unknown="no data: nothing is scraped as job mm2",
        runbooks=("Mm2NodeDown", "Mm2Absent"),
    ),
    Query(expr='up{job="mm2"}', legend="{{instance}}"),
    unit="short",
    steps=((None, BAD), (1, GOOD)),
    words={"1": ("up", GOOD), "0": ("DOWN", BAD)},
)

RELEASES = rows(
    Text(
        title="Releases",
        about="Which release runs on which node. During an upgrade there are two.",
        unknown="no data: no node answers",
    ),
    Column(expr="max by (instance, version) (mm2_build_info)"),
    labels=("instance", "version"),
    span=HALF,
    by="instance",
)

FAILED = number(
    Text(
        title="Failed tasks",
        about="Of all connectors of a flow. 0 is well.",
        unknown="no data: no connector is told of",
        runbooks=("Mm2TaskFailed",),
    ),
    Query(expr=f"sum by (flow) (kafka_connect_worker_connector_failed_task_count{_FLOW})"),
    unit="short",
    steps=((None, GOOD), (1, BAD)),
)

REBALANCING = number(
    Text(
        title="Rebalancing now",
        about="Is a flow's group being shared anew, on any node? For seconds that is normal.",
        unknown="no data: no worker is told of",
        runbooks=("Mm2FrequentRebalances",),
    ),
    Query(expr=f"max by (flow) (kafka_connect_worker_rebalance_rebalancing{_FLOW})"),
    unit="short",
    steps=((None, GOOD), (1, WARN)),
    words={"1": ("yes", WARN), "0": ("no", GOOD)},
)

CONNECTORS = rows(
    Text(
        title="Connectors and where they run",
        about="running is well; failed and unassigned are not. Tasks of one connector may run on "
        "several nodes.",
        unknown="no data: no connector is told of",
        runbooks=("Mm2TaskFailed",),
    ),
    Column(
        expr=f"max by (flow, connector, status, instance) (kafka_connect_connector_status{_FLOW})"
    ),
    labels=("flow", "connector", "status", "instance"),
    by="flow",
)

TASKS = graph(
    Text(
        title="Copying tasks by state",
        about="RUNNING is well. WAITING_FOR_SLOT: Spark has too few. RESTARTING again and again: "
        "see the node's log.",
        runbooks=("Mm2CopyProcessesRestarting", "Mm2SparkSlotsMissing"),
    ),
    Query(expr=f"sum by (flow, state) (mm2_flow_tasks{_FLOW}) > 0", legend="{{flow}} {{state}}"),
    unit="short",
    stacked=True,
    whole=True,
)

ASSIGNED = graph(
    Text(
        title="Tasks per node",
        about="What the group has given to each. Uneven for long: nodes with other files, or one "
        "that joined and got nothing.",
    ),
    Query(
        expr=f"sum by (flow, instance) (kafka_connect_coordinator_assigned_tasks{_FLOW})",
        legend=_HERE,
    ),
    unit="short",
    stacked=True,
    whole=True,
)

REBALANCES = graph(
    Text(
        title="Rebalances per hour",
        about="Each time a node joins, leaves or is lost, or the number of tasks changes.",
        runbooks=("Mm2FrequentRebalances",),
    ),
    Query(
        expr=f"sum by (flow, instance) (increase(mm2_rebalances_total{_FLOW}[1h]))",
        legend=_HERE,
    ),
    unit="short",
    whole=True,
    span=THIRD,
)

HOW_LONG = graph(
    Text(
        title="How long rebalances take",
        about="The longest of the last hour. Only what moves stands still meanwhile.",
        unknown="no data: there was none within the hour",
    ),
    Query(
        expr="max by (flow, instance) (max_over_time("
        f"kafka_connect_worker_rebalance_rebalance_max_time_ms{_FLOW}[1h]))",
        legend=_HERE,
    ),
    unit="ms",
    span=THIRD,
)

MEMBERSHIP = graph(
    Text(
        title="Since a node last heard of its group",
        about="Heartbeats of the group, not of the flow. Beyond the session timeout (10 s by "
        "default) the node loses its work to others.",
    ),
    Query(
        expr="max by (flow, instance) "
        f"(kafka_connect_coordinator_last_heartbeat_seconds_ago{_FLOW} >= 0)",
        legend=_HERE,
    ),
    unit="s",
    span=THIRD,
)

RESTARTS = graph(
    Text(
        title="Copies started again, per hour",
        about="Copies that ended unasked.",
        runbooks=("Mm2CopyProcessesRestarting",),
    ),
    Query(
        expr=f"sum by (flow, instance) (increase(mm2_task_restarts_total{_FLOW}[1h]))",
        legend=_HERE,
    ),
    unit="short",
    whole=True,
)

STARTUPS = graph(
    Text(
        title="Starts of tasks that failed, per hour",
        about="By the Connect worker of each flow. The task's error is in mm2 status and in the "
        "log.",
        runbooks=("Mm2TaskFailed",),
    ),
    Query(
        expr="sum by (flow, instance) "
        f"(increase(kafka_connect_worker_task_startup_failure_total{_FLOW}[1h]))",
        legend=_HERE,
    ),
    unit="short",
    whole=True,
)

ENGINES = number(
    Text(
        title="Spark of each node",
        about="Is the engine up that runs a node's copies?",
        unknown="no data: no node answers",
        runbooks=("Mm2EngineDown",),
    ),
    Query(expr="mm2_engine_ready", legend="{{instance}}"),
    unit="short",
    steps=((None, BAD), (1, GOOD)),
    words={"1": ("up", GOOD), "0": ("DOWN", BAD)},
)

BOARD = Board(
    uid="mm2-workers",
    title="mm2 workers and rebalances",
    about="Nodes, their Connect workers, tasks and rebalances: who runs what, and does it stay "
    "there?",
    rows=(
        Row(title="Is everybody there?", panels=(NODES, ENGINES, FAILED, REBALANCING)),
        Row(title="Who runs what?", panels=(CONNECTORS, TASKS, ASSIGNED, RELEASES)),
        Row(title="Does it stay there?", panels=(REBALANCES, HOW_LONG, MEMBERSHIP)),
        Row(title="What ends unasked?", panels=(RESTARTS, STARTUPS)),
    ),
)
