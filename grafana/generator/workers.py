"""Dashboard of nodes: Connect workers, tasks and rebalances."""

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
_BY_FLOW_AND_NODE = "{{flow}} {{instance}}"

NODES = number(
    Text(
        title="Nodes",
        about="Whether each node responds to Prometheus. Other nodes take over the tasks of "
        "a lost node.",
        unknown="no data: no scrape targets in job mm2",
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
        about="The mm2 release on each node. Two releases are normal during an upgrade.",
        unknown="no data: no node responds",
    ),
    Column(expr="max by (instance, version) (mm2_build_info)"),
    labels=("instance", "version"),
    span=HALF,
    by="instance",
)

FAILED = number(
    Text(
        title="Failed tasks",
        about="Failed tasks of all connectors of a flow. Normal: 0.",
        unknown="no data: no connectors reported",
        runbooks=("Mm2TaskFailed",),
    ),
    Query(expr=f"sum by (flow) (kafka_connect_worker_connector_failed_task_count{_FLOW})"),
    unit="short",
    steps=((None, GOOD), (1, BAD)),
)

REBALANCING = number(
    Text(
        title="Rebalancing now",
        about="Whether the Connect group of the flow is rebalancing. Normal for a few seconds.",
        unknown="no data: no workers reported",
        runbooks=("Mm2FrequentRebalances",),
    ),
    Query(expr=f"max by (flow) (kafka_connect_worker_rebalance_rebalancing{_FLOW})"),
    unit="short",
    steps=((None, GOOD), (1, WARN)),
    words={"1": ("yes", WARN), "0": ("no", GOOD)},
)

CONNECTORS = rows(
    Text(
        title="Connectors by node",
        about="Normal: running. Not normal: failed, unassigned. The tasks of a connector "
        "may run on several nodes.",
        unknown="no data: no connectors reported",
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
        title="Source tasks by state",
        about="Normal: RUNNING. WAITING_FOR_SLOT: Spark has too few slots. If tasks are "
        "RESTARTING repeatedly, see the log of the node.",
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
        about="Tasks that the Connect group assigned to each node. If the distribution "
        "remains uneven, the nodes have different configuration files, or a new node "
        "received no tasks.",
    ),
    Query(
        expr=f"sum by (flow, instance) (kafka_connect_coordinator_assigned_tasks{_FLOW})",
        legend=_BY_FLOW_AND_NODE,
    ),
    unit="short",
    stacked=True,
    whole=True,
)

REBALANCES = graph(
    Text(
        title="Rebalances per hour",
        about="A rebalance occurs when a node joins, leaves or is lost, or when the number "
        "of tasks changes.",
        runbooks=("Mm2FrequentRebalances",),
    ),
    Query(
        expr=f"sum by (flow, instance) (increase(mm2_rebalances_total{_FLOW}[1h]))",
        legend=_BY_FLOW_AND_NODE,
    ),
    unit="short",
    whole=True,
    span=THIRD,
)

HOW_LONG = graph(
    Text(
        title="Rebalance duration",
        about="Longest rebalance of the last hour. Only reassigned tasks are interrupted.",
        unknown="no data: none within the last hour",
    ),
    Query(
        expr="max by (flow, instance) (max_over_time("
        f"kafka_connect_worker_rebalance_rebalance_max_time_ms{_FLOW}[1h]))",
        legend=_BY_FLOW_AND_NODE,
    ),
    unit="ms",
    span=THIRD,
)

MEMBERSHIP = graph(
    Text(
        title="Time since the last group heartbeat",
        about="Heartbeats that the node sends to the coordinator of its Connect group, not "
        "MirrorHeartbeatConnector's heartbeats. After the session timeout (10 s by "
        "default), the tasks of the node are reassigned.",
    ),
    Query(
        expr="max by (flow, instance) "
        f"(kafka_connect_coordinator_last_heartbeat_seconds_ago{_FLOW} >= 0)",
        legend=_BY_FLOW_AND_NODE,
    ),
    unit="s",
    span=THIRD,
)

RESTARTS = graph(
    Text(
        title="Copy process restarts per hour",
        about="Restarts of copy processes that ended unexpectedly.",
        runbooks=("Mm2CopyProcessesRestarting",),
    ),
    Query(
        expr=f"sum by (flow, instance) (increase(mm2_task_restarts_total{_FLOW}[1h]))",
        legend=_BY_FLOW_AND_NODE,
    ),
    unit="short",
    whole=True,
)

STARTUPS = graph(
    Text(
        title="Failed task starts per hour",
        about="Tasks that the Connect worker of the flow could not start. mm2 status and "
        "the log show the error.",
        runbooks=("Mm2TaskFailed",),
    ),
    Query(
        expr="sum by (flow, instance) "
        f"(increase(kafka_connect_worker_task_startup_failure_total{_FLOW}[1h]))",
        legend=_BY_FLOW_AND_NODE,
    ),
    unit="short",
    whole=True,
)

ENGINES = number(
    Text(
        title="Spark on each node",
        about="Whether the engine that runs the copy processes of the node is running.",
        unknown="no data: no node responds",
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
    about="Nodes, their Connect workers and tasks: what runs where, and how often tasks move.",
    rows=(
        Row(title="Nodes and failures", panels=(NODES, ENGINES, FAILED, REBALANCING)),
        Row(title="Connectors and tasks by node", panels=(CONNECTORS, TASKS, ASSIGNED, RELEASES)),
        Row(title="Rebalances", panels=(REBALANCES, HOW_LONG, MEMBERSHIP)),
        Row(title="Restarts and failed starts", panels=(RESTARTS, STARTUPS)),
    ),
)
