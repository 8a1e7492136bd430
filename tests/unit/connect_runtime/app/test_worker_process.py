"""A worker ends when something has ended that it cannot do without. None is started here."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.app import (
    connect_distributed,
    connect_standalone,
    distributed_settings,
    standalone_settings,
)
from connect_runtime.app.worker_process import WorkerProcess
from connect_runtime.system.supervised_threads import UnexpectedThreadEnd

COMMON = """bootstrap.servers=127.0.0.1:1
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
plugin.path=
"""
DISTRIBUTED = """group.id=g
config.storage.topic=c
offset.storage.topic=o
status.storage.topic=s
"""
LOGS = ["config_log", "offset_log", "status_log"]


def _distributed(folder: Path) -> WorkerProcess:
    path = folder / "distributed.properties"
    path.write_text(COMMON + DISTRIBUTED)
    return connect_distributed.build_worker(
        distributed_settings.read_settings(path, environment={})
    )


def _standalone(folder: Path) -> WorkerProcess:
    path = folder / "standalone.properties"
    path.write_text(f"{COMMON}offset.storage.file.filename={folder / 'offsets'}\n")
    return connect_standalone.build_worker(standalone_settings.read_settings(path, environment={}))


def test_who_gives_up_says_why_and_the_first_cause_stays(tmp_path, caplog):
    process = _standalone(tmp_path)
    assert (process.wait(0), process.failure) == (False, None)
    process.core.report_failure("the disk is full")
    assert process.wait(0)
    process.core.report_failure("and so this ended too")
    assert process.failure == "the disk is full"
    process.stop()
    assert "this worker cannot continue: and so this ended too" in caplog.text


@pytest.mark.parametrize(
    ("kind", "logs"), [(_distributed, LOGS), (_standalone, ["offset_log"])], ids=["many", "one"]
)
def test_a_log_whose_thread_died_ends_the_worker(tmp_path, kind, logs):
    for name in logs:
        process = kind(tmp_path)
        log = getattr(process.core.mode, name)
        log._threads.on_unexpected_end(
            UnexpectedThreadEnd(name=f"reads {log.name}", error=ValueError("bad"))
        )
        assert process.wait(0)
        assert process.failure == f"the thread that reads {log.name} ended: bad"
        process.stop()
