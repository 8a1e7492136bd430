"""Dashboard of the Spark engine: task slots, the tasks that need them, throughput per slot."""

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
        title="Spark on each node",
        about="Whether Spark is up. A node replicates nothing until it is.",
        unknown="no data: no node responds",
        runbooks=("Mm2EngineDown",),
    ),
    Query(expr="mm2_engine_ready", legend="{{instance}}"),
    unit="short",
    steps=((None, BAD), (1, GOOD)),
    words={"1": ("up", GOOD), "0": ("DOWN", BAD)},
)

MISSING = number(
    Text(
        title="Missing task slots",
        about="Slots needed to run all tasks of a flow. 0 is normal; otherwise some partitions are "
        "not replicated.",
        unknown="no data: no node reports a flow",
        runbooks=("Mm2SparkSlotsMissing",),
    ),
    Query(expr=f"max by (flow) (mm2_spark_missing_slots{_FLOW})"),
    unit="short",
    steps=((None, GOOD), (1, BAD)),
)

FREE = number(
    Text(
        title="Free task slots",
        about="Of the Spark applications of all nodes. If none is free, an additional task, or one "
        "of a lost executor, has to wait.",
        unknown="no data: engine is not Spark, or not reported",
    ),
    Query(expr='sum(mm2_spark_slots{use="free"})', legend="slots"),
    unit="short",
    steps=((None, WARN), (1, GOOD)),
)

WAITING = number(
    Text(
        title="Tasks waiting for a slot",
        about="Their partitions are not replicated meanwhile. 0 is normal.",
        unknown="no data: no tasks reported",
        runbooks=("Mm2SparkSlotsMissing",),
    ),
    Query(expr='sum by (flow) (mm2_flow_tasks{flow=~"$flow", state="WAITING_FOR_SLOT"})'),
    unit="short",
    steps=((None, GOOD), (1, BAD)),
)

SLOTS = graph(
    Text(
        title="Spark task slots",
        about="Used by copy processes, and free. If both drop together, executors were lost.",
        unknown="no data: engine is not Spark, or not reported",
    ),
    Query(expr="sum by (instance, use) (mm2_spark_slots)", legend="{{instance}} {{use}}"),
    unit="short",
    stacked=True,
    whole=True,
)

TASKS = graph(
    Text(
        title="Source tasks by state",
        about="RUNNING is normal. STARTING: the copy process starts, for seconds.",
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
        about="Throughput of one slot. One core replicates some hundred MB/s of large batches. Far "
        "less while there is lag: the network, the target, or re-encoded batches limit it.",
        unknown="no data: engine is not Spark, or not reported",
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
        title="Average batch size",
        about="Small batches need as many requests as large ones: below 1 KB, raise linger.ms of "
        "the producers.",
        unknown="no data: nothing replicated recently",
    ),
    Query(
        expr=f"sum by (flow) (rate(mm2_replicated_bytes_total{_FLOW}[$__rate_interval])) "
        f"/ sum by (flow) (rate(mm2_replicated_batches_total{_FLOW}[$__rate_interval]))"
    ),
    unit="bytes",
)

PATHS = graph(
    Text(
        title="Share of re-encoded batches",
        about="They cost several times as much CPU as pass-through. The dashboard of the flow shows"
        " the reasons.",
        unknown="no data: nothing replicated recently",
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
        title="Copy process restarts per hour",
        about="Copy processes that ended unexpectedly: lost executors, out of memory, errors.",
        runbooks=("Mm2CopyProcessesRestarting",),
    ),
    Query(expr=f"sum by (flow) (increase(mm2_task_restarts_total{_FLOW}[1h]))"),
    unit="short",
    whole=True,
)

BOARD = Board(
    uid="mm2-spark",
    title="mm2 Spark",
    about="The Spark engine: task slots, the tasks that need them, and throughput per slot.",
    rows=(
        Row(title="Task slots", panels=(ENGINES, MISSING, WAITING, FREE)),
        Row(title="History", panels=(SLOTS, TASKS)),
        Row(title="Throughput per slot", panels=(PER_SLOT, BATCH, PATHS, RESTARTS)),
    ),
)
