"""User settings for Spark, the Spark properties derived from them, and the number of task slots.

This module never starts Spark, so `mm2 config show` and validation do not need Java.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from connect_runtime.config import properties_file
from mm2.config import copy_engine_config

_LOCAL_MASTER_PATTERN = re.compile(r"local(?:\[(?P<threads>\d+|\*)(?:,\s*\d+)?\])?$")


def count_local_slots(master: str) -> int:
    """Count the task slots of a local master: `local` has 1, `local[N]` has N, `local[*]` has one
    per CPU."""
    found = _LOCAL_MASTER_PATTERN.match(master)
    assert found is not None, f"not a local master: {master}"
    threads = found["threads"]
    if threads is None:
        return 1
    return (os.cpu_count() or 1) if threads == "*" else int(threads)


def count_executor_slots(context: Any) -> int:
    """Count the task slots of the running executors, without the driver, which runs no tasks.

    Reads the status store behind Spark's REST API, which exists even if the UI is disabled.
    """
    executors = context._jsc.sc().statusStore().executorList(True)  # noqa: SLF001 - no public access
    summaries = (executors.apply(index) for index in range(executors.size()))
    return sum(int(each.maxTasks()) for each in summaries if each.id() != "driver")


LOCAL_MASTER = copy_engine_config.LOCAL_MASTER

FIXED_PROPERTIES = {
    "spark.task.maxFailures": "1",  # Connect restarts copy processes, Spark does not
    "spark.speculation": "false",  # a second copy process would only be fenced
    "spark.python.worker.reuse": "true",
}
"""Properties that users cannot override, because correctness depends on them."""

_DEFAULT_PROPERTIES = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.scheduler.mode": "FIFO",
    "spark.executor.heartbeatInterval": "10s",
    "spark.network.timeout": "60s",
    "spark.ui.liveUpdate.period": "0",  # otherwise task starts show up late
    "spark.python.task.killTimeout": "0s",  # a graceful stop was requested before
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.killEnabled": "false",  # its pages have no authentication
    "spark.logConf": "false",
}
_LOCAL_DEFAULT_PROPERTIES = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Every user of this machine can connect to the driver's port. For a local master Spark creates
    # a random secret per run and keeps it in memory only.
    "spark.authenticate": "true",
    "spark.driver.memory": "512m",
    "spark.rpc.netty.dispatcher.numThreads": "2",  # otherwise one per slot
    "spark.python.daemon.module": "mm2.copier.spark.pyspark_daemon",
}
_SECURE_PROPERTIES = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",  # prevents a downgrade
    "spark.io.encryption.enabled": "true",
}
UNSUPPORTED_PATH_CHARACTERS = re.compile(r"""[\s"'\\]""")
"""Characters that a path in Java options cannot contain unless it is quoted."""
LOCAL_JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""JVM options in local mode. The driver's JVM processes no records, so a fast start is more
important than peak throughput."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """Settings of the Spark engine."""

    master: str = LOCAL_MASTER
    app_name: str = "mm2"
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Spark properties set by the user, which override the defaults."""
    ui: bool = False
    python: str = sys.executable
    """Python interpreter of the copy processes. The default is the interpreter of this process."""
    allow_insecure: bool = False
    hidden_environment: frozenset[str] = frozenset()
    """Environment variables that no Spark process may inherit, because configuration secrets were
    read from them."""
    py_files: tuple[Path, ...] = ()
    """Modules and zips with user-defined transforms, which are sent to executors together with the
    product's packages."""
    directory: Path | None = None
    """Directory for Spark's log and scratch files. The default is a temporary directory, which a
    clean stop removes."""

    @property
    def is_local(self) -> bool:
        """True if Spark runs entirely in this process, its JVM and its child processes, without a
        network."""
        return properties_file.is_local_spark_master(self.master)


def explain_insecure_traffic(effective: Mapping[str, str]) -> str | None:
    """Explain why Spark's network traffic is not protected. Return None if it is protected.

    `effective` contains all properties, including those of `spark-defaults.conf`.
    """
    if effective.get("spark.authenticate") != "true":
        return "spark.authenticate is not true"
    if properties_file.is_local_spark_master(effective.get("spark.master", "")):
        return None
    encrypted = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
    if not any(effective.get(key) == "true" for key in encrypted):
        return f"neither {encrypted[0]} nor {encrypted[1]} is true"
    is_managed = effective.get("spark.master", "").startswith(("yarn", "k8s"))
    secret_keys = ("spark.authenticate.secret", "spark.authenticate.secret.file")
    if not is_managed and not any(effective.get(key) for key in secret_keys):
        return (
            "spark.authenticate.secret is not set: set the cluster's secret, preferably as "
            "${file:…}, under `conf` in the `spark` section or in spark-defaults.conf"
        )
    return None


def build_spark_properties(settings: SparkSettings, *, scratch: Path) -> dict[str, str]:
    """Build all Spark properties, including the user's. `scratch` is a private directory of the
    driver."""
    merged = dict(_DEFAULT_PROPERTIES)
    if settings.is_local:
        merged |= _LOCAL_DEFAULT_PROPERTIES
        merged["spark.local.dir"] = str(scratch / "local")
        merged["spark.python.unix.domain.socket.dir"] = str(scratch)
        merged["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
    elif not settings.allow_insecure:
        merged |= _SECURE_PROPERTIES
    merged |= settings.conf
    merged |= FIXED_PROPERTIES
    merged["spark.master"] = settings.master
    merged["spark.app.name"] = settings.app_name
    merged["spark.ui.enabled"] = "true" if settings.ui else "false"
    return merged


def build_java_options(
    settings: SparkSettings, *, scratch: Path, logging: Path, nameless: bool = False, more: str = ""
) -> str:
    """Build the options of the driver's JVM. The user's options are last, so that they take
    precedence.

    A JVM ignores `TMPDIR` and uses `/tmp`, so the options set its temporary directory to `scratch`.
    `nameless` is True if the user id has no account. Java's home directory is then "?", which
    Spark's dependency resolver (Ivy) rejects, so the home directory is also set to `scratch`.
    `more` contains additional options that are used only in local mode.
    """
    options = [f"-Dlog4j2.configurationFile={logging.as_uri()}"]
    if not UNSUPPORTED_PATH_CHARACTERS.search(str(scratch)):
        options += [
            f"-Djava.io.tmpdir={scratch}",
            *([f"-Duser.home={scratch}"] if nameless else []),
        ]
    if settings.is_local:
        options += [LOCAL_JVM_OPTIONS, *([more] if more else [])]
    return " ".join([*options, settings.conf.get("spark.driver.extraJavaOptions", "")]).strip()


SPARK_LOG_SIZE = "10MB"
MAX_SPARK_LOG_FILES = 3


def format_log4j2_properties(log: Path) -> str:
    """Format a Log4j 2 configuration that writes to `log` and keeps `MAX_SPARK_LOG_FILES` old
    files."""
    return f"""\
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}}{{UTC}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = {SPARK_LOG_SIZE}
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = {MAX_SPARK_LOG_FILES}
logger.jetty.name = org.sparkproject.jetty
logger.jetty.level = warn
logger.metrics.name = org.apache.spark.metrics
logger.metrics.level = warn
"""
