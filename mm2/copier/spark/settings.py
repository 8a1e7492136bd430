"""What users configure about Spark, the Spark properties that follow from it, and the number of
slots.

Nothing here starts Spark, so `mm2 config show` and validation need no Java.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mm2.config import engine_config

_LOCAL_MASTER_PATTERN = re.compile(r"local(?:\[(?P<threads>\d+|\*)(?:,\s*\d+)?\])?$")


def count_local_slots(master: str) -> int:
    """`local` has one slot, `local[N]` N, `local[*]` one for each processor."""
    found = _LOCAL_MASTER_PATTERN.match(master)
    assert found is not None, f"not a local master: {master}"
    threads = found["threads"]
    if threads is None:
        return 1
    return (os.cpu_count() or 1) if threads == "*" else int(threads)


def count_executor_slots(context: Any) -> int:
    """Slots of the executors that run now, the driver's own (which runs nothing) left out.

    The status store is what Spark's REST API reads; it is there whether or not the UI is on.
    """
    executors = context._jsc.sc().statusStore().executorList(True)  # noqa: SLF001 - see above
    summaries = (executors.apply(index) for index in range(executors.size()))
    return sum(int(each.maxTasks()) for each in summaries if each.id() != "driver")


LOCAL_MASTER = engine_config.LOCAL_MASTER

FIXED_PROPERTIES = {
    "spark.task.maxFailures": "1",  # Connect restarts copies, Spark does not
    "spark.speculation": "false",  # a second copy at the same time would only be fenced
    "spark.python.worker.reuse": "true",
}
"""What the pipeline's promises rest on, whatever else is given."""

_DEFAULT_PROPERTIES = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.scheduler.mode": "FIFO",
    "spark.executor.heartbeatInterval": "10s",
    "spark.network.timeout": "60s",
    "spark.ui.liveUpdate.period": "0",  # else a started task shows up at the next heartbeat only
    "spark.python.task.killTimeout": "0s",  # who is cancelled was asked before
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.killEnabled": "false",  # its pages ask for no password
    "spark.logConf": "false",
}
_LOCAL_DEFAULT_PROPERTIES = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Every user of this machine can connect to the driver. For a local master Spark makes a random
    # secret for each run, and keeps it in memory alone.
    "spark.authenticate": "true",
    "spark.driver.memory": "512m",
    "spark.rpc.netty.dispatcher.numThreads": "2",  # else one for each of the 512 slots
    "spark.python.daemon.module": "mm2.copier.spark.pyspark_daemon",
}
_SECURE_PROPERTIES = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",  # else one altered answer ends encryption
    "spark.io.encryption.enabled": "true",
}
UNSUPPORTED_PATH_CHARACTERS = re.compile(r"""[\s"'\\]""")
"""What stands in a path that Java options cannot hold as it is."""
LOCAL_JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""No payload passes through the driver's JVM: quick to start counts more than fast at its peak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """`conf` are Spark properties as the user gave them; they win over our defaults.

    `python` is the interpreter that runs the copies, by default the one that runs us.
    `hidden_environment` names variables that no process of Spark may inherit: those that
    configuration values were read from. `py_files` (modules, zips) go to the executors beside our
    own packages: users' transforms. `directory` is where Spark's log and scratch files go, by
    default a temporary directory that a clean stop removes.
    """

    master: str = LOCAL_MASTER
    app_name: str = "mm2"
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    ui: bool = False
    python: str = sys.executable
    allow_insecure: bool = False
    hidden_environment: frozenset[str] = frozenset()
    py_files: tuple[Path, ...] = ()
    directory: Path | None = None

    @property
    def local(self) -> bool:
        """One host, no network: everything in this process, its JVM and its children."""
        return engine_config.is_local_master(self.master)


def explain_insecure_traffic(effective: Mapping[str, str]) -> str | None:
    """Why Spark's own traffic is open to others; None when it is not.

    `effective` are all properties, those of `spark-defaults.conf` included.
    """
    if effective.get("spark.authenticate") != "true":
        return "spark.authenticate is not true"
    if engine_config.is_local_master(effective.get("spark.master", "")):
        return None
    encrypted = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
    if not any(effective.get(key) == "true" for key in encrypted):
        return f"neither {encrypted[0]} nor {encrypted[1]} is true"
    managed = effective.get("spark.master", "").startswith(("yarn", "k8s"))
    given = ("spark.authenticate.secret", "spark.authenticate.secret.file")
    if not managed and not any(effective.get(key) for key in given):
        return (
            "spark.authenticate.secret is not set: give the secret of the cluster, best as "
            "${file:…}, under `conf` of the `spark` section or in spark-defaults.conf"
        )
    return None


def build_properties(settings: SparkSettings, *, scratch: Path) -> dict[str, str]:
    """Spark's properties, the user's included. `scratch` is a private directory of the driver."""
    merged = dict(_DEFAULT_PROPERTIES)
    if settings.local:
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
    """The driver JVM's options: the user's last, so that they win. `more` are for a local one.

    A JVM takes `/tmp` for temporary files whatever `TMPDIR` says: here it takes `scratch`. The home
    of who is `nameless` it calls "?", which Spark's Ivy refuses: there it takes `scratch`, too.
    """
    ours = [f"-Dlog4j2.configurationFile={logging.as_uri()}"]
    if not UNSUPPORTED_PATH_CHARACTERS.search(str(scratch)):
        ours += [f"-Djava.io.tmpdir={scratch}", *([f"-Duser.home={scratch}"] if nameless else [])]
    if settings.local:
        ours += [LOCAL_JVM_OPTIONS, *([more] if more else [])]
    return " ".join([*ours, settings.conf.get("spark.driver.extraJavaOptions", "")]).strip()
