"""A process with a Spark engine and stand-in copies, for tests that kill it.

`python -m tests.system.spark_process OPTIONS-AS-JSON` prints one line of JSON when its copies are
up (or wait), then one more for each line that it reads, and ends at the end of its input.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from connect_runtime.system import clock
from mm2.pipeline import channel_certificate, control_server, engine
from mm2.pipeline.spark import engine as spark_engine
from mm2.pipeline.spark import settings as spark_settings
from tests.support import copies

CLOCK = clock.SystemClock()


def listen(*, local: bool) -> control_server.ControlServer:
    if local:
        return control_server.listen_unix(CLOCK)
    tls, fingerprint = channel_certificate.server_context(host="127.0.0.1", wall_ms=CLOCK.wall_ms())
    return control_server.listen_tls(
        CLOCK,
        tls=tls,
        fingerprint=fingerprint,
        bind=("127.0.0.1", 0),
        advertised_host="127.0.0.1",
    )


def view(spark: spark_engine.SparkEngine, started: list[copies.StartedCopy]) -> dict[str, Any]:
    slots = spark.slots()
    return {
        "slots": [slots.total, slots.used, slots.waiting, slots.missing],
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
    settings = spark_settings.SparkSettings(**given)
    server = listen(local=settings.local)
    spark = spark_engine.SparkEngine(settings, now=CLOCK)
    spark.open()
    starter = copies.Starter(spark, server)
    started = [starter(options["entry"]) for _ in range(options["slots"])]
    described = [copy.message(200.0) for copy in started]
    for copy in started:
        copy.await_state(engine.CopyState.RUNNING)
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
