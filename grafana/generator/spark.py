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
        about="Whether Spark is running. Until it is running, the node replicates nothing.",
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
        about="Additional slots needed to run all tasks of the flow. Normal: 0. If slots "
        "are missing, some partitions are not replicated.",
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
        about="Free slots of the Spark applications of all nodes. If none is free, "
        "additional tasks, or tasks of a lost executor, must wait.",
        unknown="no data: engine is not Spark, or not reported",
    ),
    Query(expr='sum(mm2_spark_slots{use="free"})', legend="slots"),
    unit="short",
    steps=((None, WARN), (1, GOOD)),
)

WAITING = number(
    Text(
        title="Tasks waiting for a slot",
        about="The partitions of these tasks are not replicated. Normal: 0.",
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
        about="Slots used by copy processes, and free slots. If both decrease at the same "
        "time, executors were lost.",
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
        about="Normal: RUNNING. STARTING: the copy process is starting, which takes a few seconds.",
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
        about="Throughput of a slot. With large batches, one core replicates several "
        "hundred MB/s. If it is far lower while there is lag, the limit is the "
        "network, the target, or re-encoding.",
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
        about="Small batches need as many requests as large batches. If the average is "
        "below 1 KB, raise linger.ms of the producers.",
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
        about="Re-encoded batches need several times as much CPU time as pass-through "
        'batches. The dashboard "mm2 flow" shows the reasons.',
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
        about="Restarts of copy processes that ended unexpectedly, for example because "
        "executors were lost or memory ran out.",
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
