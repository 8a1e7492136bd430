"""An executor's Python answers with pickles that run code: the driver does not unpickle them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

HOSTILE = """
import sys

if any("pyspark_daemon" in each for each in sys.orig_argv):
    import pickle

    from pyspark import accumulators, serializers

    class Evil:
        def __init__(self, name):
            self.name = name

        def __reduce__(self):
            return exec, (f"open({self.name!r}, 'w').close()",)

    class Registry(dict):
        def clear(self):
            pass

    class Accumulator:
        _value = Evil(EXPLOITED + "-accumulator")

    accumulators._accumulatorRegistry = Registry({0: Accumulator()})

    def dumps(_, value):
        is_update = isinstance(value, tuple) and value[1] is Accumulator._value
        return pickle.dumps(value if is_update else [Evil(EXPLOITED + "-result")])

    for each in (serializers.CPickleSerializer, serializers.CloudPickleSerializer):
        each.dumps = dumps
"""

DRIVER = """
from mm2.copier.spark import driver, jvm
from mm2.copier.spark.executor_job import WARM_UP_ENTRY, SparkCopyParameters
from mm2.copier.spark.settings import SparkSettings

settings = SparkSettings(master="local[1]")
started = jvm.launch_jvm(settings)
jvm.wait_for_gateway(started, settings)
spark = driver.create_spark_context(started, settings)
job = SparkCopyParameters(address="x", token=b"t", entry=WARM_UP_ENTRY)
try:
    print(spark.run_job(job, group="g", description="x"))
finally:
    spark.stop_context()
    spark.release(5.0, keep_logs=False)
"""


def run_driver(folder: Path, *, unprotected: bool = False) -> tuple[str, set[str]]:
    """What the driver printed, and what the executor had it do."""
    exploited = folder / "exploited"
    (folder / "sitecustomize.py").write_text(f"EXPLOITED = {str(exploited)!r}\n{HOSTILE}")
    planted = (
        "from pyspark import accumulators, serializers\n"
        "from mm2.copier.spark import driver, executor_job\n"
        "accumulators.pickleSer = serializers.CPickleSerializer()\n"
        "serializers.NoOpSerializer = serializers.CPickleSerializer\n"
        "executor_job.decode_outcome = lambda row: row\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", (planted if unprotected else "") + DRIVER],
        env={**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    return done.stdout + done.stderr, {each.name for each in folder.glob("exploited*")}


def test_results_and_accumulators_of_executors_are_not_unpickled(tmp_path):
    output, exploited = run_driver(tmp_path)
    assert "[('ended', '')]" in output
    assert exploited == set()


def test_a_driver_that_unpickles_is_found(tmp_path):
    """The planted fault: the deserializers that pyspark uses by default."""
    _, exploited = run_driver(tmp_path, unprotected=True)
    assert exploited == {"exploited-result", "exploited-accumulator"}
