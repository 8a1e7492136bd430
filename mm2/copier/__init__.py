"""Copies the partitions of one task from the source to the target cluster.

The driver (the process that runs the Connect worker) starts copy processes through a `CopyEngine`:
Spark by default, or threads of the driver (`InlineEngine`). A `CopyProcess` connects to the
driver's `ControlServer`, receives its configuration over this control channel, and runs a
`CopyLoop`: one thread and one selector for all partitions of the task. The loop transfers data
between sockets and the `PartitionReplicator` state machines of `mm2.replication`, which make all
decisions.

The driver's side is `DataPlane`, with one engine and one control server per process.
`BlockingClient`, `PartitionFencer` and the capability probes are for tools that work on one
partition at a time.

Allowed imports: `mm2.formats`, `topics`, `offsets`, `replication`, `kafka` and `config`, and
`connect_runtime` up to `network`. Modules that a copy process imports must not import pyspark,
confluent_kafka, or a web framework: `spark.executor_dependencies` lists the packages that are sent
to executors.
"""
