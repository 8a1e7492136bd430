"""Copies the partitions of one task from the source to the target cluster.

The driver (the process that runs the Connect worker) starts copy processes through a
`CopyEngine`: Spark by default, or threads of the driver (`InlineEngine`). A `CopyProcess`
connects to the driver's `ControlServer`, receives its configuration over this control channel,
and runs a `CopyLoop`: one thread and one selector for all partitions of the task. The loop
moves bytes and answers between sockets and the `PartitionReplicator` state machines of
`mm2.replication`; it decides nothing about them.

`DataPlane` is the driver's side: one engine and one control server for each process.
`BlockingClient`, `PartitionFencer` and the capability probes serve tools that work on one
partition at a time.

May import `mm2.formats`, `topics`, `offsets`, `replication`, `kafka` and `config`, and
`connect_runtime` up to `network`. What a copy process imports must not import pyspark,
confluent_kafka, or a web framework: `spark.executor_dependencies` lists what executors get.
"""
