"""Spark's classes are written down by the first driver that runs for long; the next use them."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.system.system_clock import SystemClock
from mm2.copier.copy_engine import EngineState
from mm2.copier.spark import jvm
from mm2.copier.spark.engine import SparkEngine
from mm2.copier.spark.settings import SparkSettings
from tests.support import eventually

pytestmark = [pytest.mark.system, pytest.mark.full, pytest.mark.timeout(900)]

WAIT_S = 240.0


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MM2_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    return tmp_path / "cache"


def started() -> SparkEngine:
    # What the JVM itself takes no archive for, it says.
    conf = {"spark.driver.extraJavaOptions": "-Xshare:on"}
    made = SparkEngine(SparkSettings(conf=conf), clock=SystemClock(), archive_after_s=0.0)
    made.open()
    eventually.eventually(
        lambda: made.state is not EngineState.STARTING, WAIT_S, lambda: str(made.failure)
    )
    assert made.state is EngineState.READY, made.failure
    return made


def test_the_first_writes_what_the_next_begins_with(cache: Path):
    first = started()
    try:
        eventually.eventually(lambda: list(cache.glob("spark.*.jsa")), WAIT_S)
    finally:
        first.stop(5.0)
    (path,) = cache.glob("spark.*.jsa")
    assert path.stat().st_size > 1_000_000
    before = path.stat().st_mtime_ns
    second = started()
    try:
        pid = second.jvm_pid
        assert str(path) in Path(f"/proc/{pid}/maps").read_text(), "the JVM has mapped it"
        assert second.state is EngineState.READY
    finally:
        second.stop(5.0)
    assert path.stat().st_mtime_ns == before, "nobody writes it again"


@pytest.mark.parametrize("where", ["environment", "conf"])
def test_who_has_an_archive_keeps_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    option = f"{jvm.SHARED_ARCHIVE_OPTION}{cache / 'mine.jsa'}"
    conf = {"spark.driver.extraJavaOptions": option} if where == "conf" else {}
    if where == "environment":
        monkeypatch.setenv("SPARK_SUBMIT_OPTS", option)
    machine = jvm.launch_jvm(SparkSettings(conf=conf))
    try:
        assert machine.archive is None
    finally:
        machine.kill()
        machine.stop_and_remove_files(WAIT_S, keep_logs=False)
