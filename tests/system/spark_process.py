"""A process with a Spark engine and stand-in copies, for tests that kill it.

`python -m tests.system.spark_process OPTIONS-AS-JSON` prints one line of JSON when its copies are
up (or wait), then one more for each line that it reads, and ends at the end of its input.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from connect_runtime.system.system_clock import SystemClock
from mm2.copier import control_channel_server
from mm2.copier.control_channel_server import ControlServer
from mm2.copier.copy_engine import CopyState
from mm2.copier.spark.engine import SparkEngine
from mm2.copier.spark.settings import SparkSettings
from tests.support.copies import StartedCopy, Starter

CLOCK = SystemClock()


def listen(*, local: bool) -> ControlServer:
    if local:
        return control_channel_server.listen_unix(CLOCK)
    tls, fingerprint = control_channel_server.create_tls_context(
        host="127.0.0.1", wall_ms=CLOCK.wall_ms()
    )
    return control_channel_server.listen_tls(
        CLOCK,
        tls=tls,
        fingerprint=fingerprint,
        bind=("127.0.0.1", 0),
        advertised_host="127.0.0.1",
    )


def view(spark: SparkEngine, started: list[StartedCopy]) -> dict[str, Any]:
    slots = spark.get_slot_usage()
    return {
        "slots": [slots.total, slots.used, slots.waiting, slots.missing_slots],
        "states": [copy.handle.state.value for copy in started],
        "errors": [copy.handle.error for copy in started],
        "failure": spark.failure,
        "jvm": spark.jvm_pid,
    }


def main(options: dict[str, Any]) -> None:
    given = options["settings"]
    given["py_files"] = tuple(map(Path, given.get("py_files", ())))
    if "directory" in given:
        given["directory"] = Path(given["directory"])
    settings = SparkSettings(**given)
    server = listen(local=settings.is_local)
    spark = SparkEngine(settings, clock=CLOCK)
    spark.open()
    starter = Starter(spark, server)
    started = [starter(options["entry"]) for _ in range(options["slots"])]
    described = [copy.message(200.0) for copy in started]
    for copy in started:
        copy.await_state(CopyState.RUNNING)
    started += [starter(options["entry"]) for _ in range(options["copies"] - options["slots"])]
    pids = [each["pid"] for each in described] + [each["parent"] for each in described]
    print(json.dumps({**view(spark, started), "pids": sorted(set(pids))}), flush=True)  # noqa: T201
    for line in sys.stdin:
        if line.strip() == "stop first":
            started[0].stop()
        print(json.dumps(view(spark, started)), flush=True)  # noqa: T201
    spark.stop(3.0)
    server.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
