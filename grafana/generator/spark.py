"""The Spark pipeline: slots, the tasks that need them, and what a slot does."""

from __future__ import annotations

from grafana.generator.board import Board, Row
from grafana.generator.panels import (
    BAD,
    GOOD,
    WARN,
    Query,
    Text,
    graph,
    number,
)

_FLOW = '{flow=~"$flow"}'

ENGINES = number(
    Text(
        title="Spark of each node",
        about="Is it up? What a node is to copy stands still until it is.",
        unknown="no data: no node answers",
        runbooks=("Mm2EngineDown",),
    ),
    Query(expr="mm2_engine_ready", legend="{{instance}}"),
    unit="short",
    steps=((None, BAD), (1, GOOD)),
    words={"1": ("up", GOOD), "0": ("DOWN", BAD)},
)

MISSING = number(
    Text(
        title="Slots that lack",
        about="For all tasks of a flow to run. 0 is well; else some of its partitions stand still.",
        unknown="no data: no flow is told of",
        runbooks=("Mm2SparkSlotsMissing",),
    ),
    Query(expr=f"max by (flow) (mm2_spark_missing_slots{_FLOW})"),
    unit="short",
    steps=((None, GOOD), (1, BAD)),
)

FREE = number(
    Text(
        title="Free slots",
        about="Of all nodes' Spark applications. None free: a task more, or a lost executor, "
        "waits.",
        unknown="no data: copies do not run in Spark, or nobody tells",
    ),
    Query(expr='sum(mm2_spark_slots{use="free"})', legend="slots"),
    unit="short",
    steps=((None, WARN), (1, GOOD)),
)

WAITING = number(
    Text(
        title="Tasks that wait for a slot",
        about="Their partitions stand still meanwhile; the others are copied. 0 is well.",
        unknown="no data: no task is told of",
        runbooks=("Mm2SparkSlotsMissing",),
    ),
    Query(expr='sum by (flow) (mm2_flow_tasks{flow=~"$flow", state="WAITING_FOR_SLOT"})'),
    unit="short",
    steps=((None, GOOD), (1, BAD)),
)

SLOTS = graph(
    Text(
        title="Slots of Spark",
        about="Used by copies, and free. A fall of both together: executors were lost.",
        unknown="no data: copies do not run in Spark, or nobody tells",
    ),
    Query(expr="sum by (instance, use) (mm2_spark_slots)", legend="{{instance}} {{use}}"),
    unit="short",
    stacked=True,
    whole=True,
)

TASKS = graph(
    Text(
        title="Copying tasks by state",
        about="RUNNING is well. STARTING: a slot is being filled, for seconds.",
        runbooks=("Mm2CopyProcessesRestarting",),
    ),
    Query(expr=f"sum by (flow, state) (mm2_flow_tasks{_FLOW}) > 0", legend="{{flow}} {{state}}"),
    unit="short",
    stacked=True,
    whole=True,
)

PER_SLOT = graph(
    Text(
        title="Bytes per second and slot",
        about="What one slot copies. A core copies some hundred MB/s of large batches; far less "
        "with a lag: the network, the target, or batches that have to be opened.",
        unknown="no data: copies do not run in Spark, or nobody tells",
    ),
    Query(
        expr="sum by (instance) (rate(mm2_replicated_bytes_total[$__rate_interval])) "
        '/ on (instance) sum by (instance) (mm2_spark_slots{use="used"})',
        legend="{{instance}}",
    ),
    unit="Bps",
)

BATCH = graph(
    Text(
        title="Bytes of a batch, on average",
        about="Small batches cost as many requests as large ones: below 1 KB producers should "
        "linger.",
        unknown="no data: nothing was copied lately",
    ),
    Query(
        expr=f"sum by (flow) (rate(mm2_replicated_bytes_total{_FLOW}[$__rate_interval])) "
        f"/ sum by (flow) (rate(mm2_replicated_batches_total{_FLOW}[$__rate_interval]))"
    ),
    unit="bytes",
)

PATHS = graph(
    Text(
        title="Share of batches that are opened",
        about="They cost several times as much as those that are passed through. The board of "
        "the flow says why they are.",
        unknown="no data: nothing was copied lately",
    ),
    Query(
        expr='sum by (flow) (rate(mm2_replicated_batches_total{flow=~"$flow", path="re-encoded"}'
        "[$__rate_interval])) "
        f"/ sum by (flow) (rate(mm2_replicated_batches_total{_FLOW}[$__rate_interval]))"
    ),
    unit="percentunit",
    most=1,
)

RESTARTS = graph(
    Text(
        title="Copies started again, per hour",
        about="Copies that ended unasked: lost executors, memory, errors.",
        runbooks=("Mm2CopyProcessesRestarting",),
    ),
    Query(expr=f"sum by (flow) (increase(mm2_task_restarts_total{_FLOW}[1h]))"),
    unit="short",
    whole=True,
)

BOARD = Board(
    uid="mm2-spark",
    title="mm2 Spark",
    about="The Spark pipeline: slots, the tasks that need them, and what a slot does.",
    rows=(
        Row(title="Has every task a slot?", panels=(ENGINES, MISSING, WAITING, FREE)),
        Row(title="Since when?", panels=(SLOTS, TASKS)),
        Row(title="What does a slot do?", panels=(PER_SLOT, BATCH, PATHS, RESTARTS)),
    ),
)
