"""`connect-distributed` and `connect-standalone` as processes: refused and ended as Java's are."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from connect_runtime.system import child_processes
from mm2.sandbox import broker_settings
from tests.support import connect_workers, eventually, kafka
from tests.support import processes as support_processes

pytestmark = pytest.mark.system

Kind, Mode = connect_workers.Kind, connect_workers.Mode
BOTH = pytest.mark.parametrize(
    "kind",
    [Kind.OURS, pytest.param(Kind.JAVA, marks=pytest.mark.full)],
    ids=lambda each: each.value,
)
WAIT_S = 60.0
STRING = "org.apache.kafka.connect.storage.StringConverter"
SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1"}
SINK = {"connector.class": "FileStreamSink", "tasks.max": "1"}


def ran(kind: connect_workers.Kind, mode: connect_workers.Mode, files: Sequence[Path]) -> int:
    """The exit code of a command that ends by itself; its log is at the first file's side."""
    log = (files[0].parent if files else Path("/dev")) / ("log" if files else "null")
    with log.open("ab") as output:
        child = child_processes.start_process(
            kind.command(mode, files, flags=()), output=output, cwd=support_processes.ROOT
        )
    try:
        code = child.wait(WAIT_S)
        assert code is not None, "it runs on"
        return code
    finally:
        child.kill()


def written(path: Path, settings: Mapping[str, str]) -> Path:
    path.write_text(broker_settings.render_properties(settings))
    return path


def alone(client: Mapping[str, str], folder: Path) -> dict[str, str]:
    return {
        "bootstrap.servers": client["bootstrap.servers"],
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "500",
        "listeners": "http://127.0.0.1:0",
        "file.stream.allowed.paths": str(folder),
    }


@BOTH
@pytest.mark.parametrize("mode", list(Mode), ids=lambda each: each.value)
def test_without_a_file_it_says_how_it_is_called(kind, mode):
    assert ran(kind, mode, []) == 1


@BOTH
@pytest.mark.parametrize("mode", list(Mode), ids=lambda each: each.value)
def test_wrong_settings_end_it(kind, mode, tmp_path):
    file = written(tmp_path / "worker.properties", {"bootstrap.servers": "127.0.0.1:1"})
    assert ran(kind, mode, [file]) == 2
    assert "key.converter" in (tmp_path / "log").read_text()


@BOTH
@pytest.mark.parametrize(
    "connector",
    [{"name": "c", "connector.class": "Nope"}, {"connector.class": "FileStreamSource"}],
    ids=["no such class", "no name"],
)
def test_a_connector_that_is_refused_ends_it(kind, connector, east, tmp_path):
    worker = written(tmp_path / "worker.properties", alone(east.client_properties(), tmp_path))
    assert ran(kind, Mode.STANDALONE, [worker, written(tmp_path / "c.properties", connector)]) == 3


@BOTH
def test_connectors_of_every_shape_run_and_a_signal_ends_them_in_order(kind, east, topic, tmp_path):
    client = east.client_properties()
    name = kafka.create_topic(client, topic())
    lines, copied, paused = (tmp_path / each for each in ("in.txt", "out.txt", "paused.txt"))
    lines.write_text("one\ntwo\n")
    source = {**SOURCE, "name": f"{name}-source", "file": str(lines), "topic": name}
    sink = {**SINK, "name": f"{name}-sink", "file": str(copied), "topics": name}
    other = {"name": f"{name}-paused", "config": {**SINK, "file": str(paused), "topics": name}}
    files = [
        written(tmp_path / "worker.properties", alone(client, tmp_path)),
        written(tmp_path / "source.properties", source),
        tmp_path / "sink.json",
        tmp_path / "paused.json",
    ]
    files[2].write_text(json.dumps(sink))
    files[3].write_text(json.dumps({**other, "initial_state": "PAUSED"}))
    with (tmp_path / "log").open("ab") as output:
        child = child_processes.start_process(
            kind.command(Mode.STANDALONE, files, flags=()),
            output=output,
            cwd=support_processes.ROOT,
        )
    try:
        eventually.eventually(
            lambda: child.poll() is not None or (copied.exists() and len(copied.read_text()) == 8),
            WAIT_S,
            lambda: (tmp_path / "log").read_text(),
        )
        child.send_signal(signal.SIGTERM)
        assert child.wait(WAIT_S) == 143, (tmp_path / "log").read_text()
    finally:
        child.kill()
    assert copied.read_text() == "one\ntwo\n"
    assert committed(client, f"connect-{name}-sink", name) == 2
    assert not paused.exists()


def committed(client: Mapping[str, str], group: str, topic: str) -> int:
    """Of its partition 0."""
    return kafka.committed_offset(client, group, topic)
