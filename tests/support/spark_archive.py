"""Has the archive of Spark's classes made before the first test: each driver saves half its CPU.

The product makes it once a driver has run for minutes, which none does here.
"""

from __future__ import annotations

from connect_runtime.base.errors import FatalError
from connect_runtime.system import java_installation, secure_file_access, system_clock
from connect_runtime.system.system_clock import SystemClock
from mm2.copier.spark import jvm
from mm2.copier.spark.engine import SparkEngine
from mm2.copier.spark.jvm import ClassArchive
from mm2.copier.spark.settings import SparkSettings
from mm2.sandbox import kafka_jars

_MAKING_S = 240.0
_STOPPING_S = 10.0


def prepare() -> None:
    """Make it, if there is none and there can be one; whoever comes meanwhile waits."""
    try:
        archive = ClassArchive(java_installation.find_java().banner, jvm.find_spark_home())
    except FatalError:
        return  # the tests say what is missing
    if archive.needs_creation:
        lock = secure_file_access.find_user_cache_directory() / "spark-archive.lock"
        lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with kafka_jars.hold_file_lock(lock, report=kafka_jars.print_to_stderr):
            if archive.needs_creation:
                _make(archive)


def _make(archive: ClassArchive) -> None:
    driver = SparkEngine(SparkSettings(), clock=SystemClock(), archive_after_s=0.0)
    driver.open()
    try:
        system_clock.wait_until(
            lambda: not archive.needs_creation, timeout_s=_MAKING_S, interval_s=0.1
        )
    finally:
        driver.stop(_STOPPING_S)
