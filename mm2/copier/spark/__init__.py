"""The Spark engine, which runs every copy process as one Spark job with a single long task.

`SparkEngine` implements `CopyEngine` with one `SparkDriver` (SparkContext) in one `DriverJvm` per
process. The executor runs `executor_job`, which starts the copy process and reports how it ended.
In local mode executors are forked from `pyspark_daemon`, which has already loaded the modules of a
copy process.

Only `driver` imports pyspark at load time, and `engine` imports `driver` lazily. `settings` needs
neither pyspark nor Java.
"""
