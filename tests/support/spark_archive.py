"""Has the archive of Spark's classes made before the first test: each driver saves half its CPU.

The product makes it once a driver has run for minutes, which none does here.
"""

from __future__ import annotations

from connect_runtime.base import errors
from connect_runtime.system import clock, java, polling, user_cache
from mm2.pipeline.spark import class_archive, jvm
from mm2.pipeline.spark import engine as spark_engine
from mm2.pipeline.spark import settings as spark_settings
from mm2.sandbox import artefacts

_MAKING_S = 240.0
_STOPPING_S = 10.0


def prepare() -> None:
    """Make it, if there is none and there can be one; whoever comes meanwhile waits."""
    try:
        archive = class_archive.ClassArchive(java.find().banner, jvm.spark_home())
    except errors.FatalError:
        return  # the tests say what is missing
    if archive.wanted:
        lock = user_cache.folder() / "spark-archive.lock"
        lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with artefacts.locked(lock, say=artefacts.to_stderr):
            if archive.wanted:
                _make(archive)


def _make(archive: class_archive.ClassArchive) -> None:
    driver = spark_engine.SparkEngine(
        spark_settings.SparkSettings(), now=clock.SystemClock(), archive_after_s=0.0
    )
    driver.open()
    try:
        polling.until(lambda: not archive.wanted, timeout_s=_MAKING_S, interval_s=0.1)
    finally:
        driver.stop(_STOPPING_S)
