"""The Spark engine: every copy is one Spark job with a single long task.

`SparkEngine` implements `CopyEngine` over one `SparkDriver` (SparkContext) in one `DriverJvm`
for each process. The executor runs `executor_job`, which starts the copy process and reports
how it ended. In local mode executors fork from `pyspark_daemon`, which has loaded already what
a copy needs.

Only `driver` imports pyspark when it is loaded, and `engine` imports it late; `settings` needs
neither pyspark nor Java.
"""
