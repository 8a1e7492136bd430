"""`mm2 run` as users type it: exit codes, what is told, what was copied."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import port_reservation
from tests.support import eventually, kafka, mirror
from tests.support.kafka import Outgoing, Properties
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NOW_S = SystemClock().now_s
STOP_LIMIT_S = 4.5
"""3 s are promised on a machine of its own; other tests share this one."""
INLINE = {"engine": "inline"}
"""Where Spark is not what is looked at."""


def mm2(*arguments: str | Path, timeout_s: float = 150.0) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end; its stdout is no terminal."""
    return subprocess.run(
        [*mirror.COMMAND, *map(str, arguments)],
        cwd=mirror.ROOT,
        env={**os.environ, "PYTHONPATH": str(mirror.ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def write(folder: Path, given: Mapping[str, Any]) -> Path:
    path = folder / "clusters.yaml"
    path.touch(mode=0o600)
    path.write_text(json.dumps({"metrics": {"port": 0}, **given}, indent=1))
    return path


def fill(properties: Properties, topic: str, *, partitions: int, records: int = 40) -> None:
    """Records of every codec in every partition, with and without keys, values and headers."""
    kafka.create_topic(properties, topic, partitions=partitions)
    for codec in CODECS:
        outgoing = [
            Outgoing(
                value=None if number % 7 == 0 else f"{codec} {number} ".encode() * 50,
                key=None if number % 3 == 0 else f"key-{number}".encode(),
                headers=(("codec", codec.encode()), ("none", None)) if number % 2 else (),
                partition=number % partitions,
            )
            for number in range(records)
        ]
        kafka.produce(properties, topic, outgoing, compression_type=codec)


def must_be_equal(east: Properties, west: Properties, topic: str, *, records: int) -> None:
    source = kafka.read_topic(east, topic, isolation="read_committed")
    target = kafka.read_topic(west, f"east.{topic}", isolation="read_committed")
    assert sum(map(len, source.values())) == records
    assert source.keys() == target.keys()
    for partition in source:
        assert kafka.differences(source[partition], target[partition]) == []


def test_topics_of_every_codec_are_copied_until_caught_up(east, west, topic, tmp_path):
    source, target = east.client_properties(), west.client_properties()
    first, second = topic("first"), topic("second")
    fill(source, first, partitions=3)
    fill(source, second, partitions=1)
    late = [Outgoing(value=b"committed"), Outgoing(value=b"too")]
    for commit in (True, False, True):
        kafka.produce_transaction(
            source, second, late, transactional_id=f"{second}-{commit}", commit=commit
        )
    given = mirror.settings(
        east.client_properties(), west.client_properties(), topics=[first, second], tasks_max=2
    )
    done = mm2("run", write(tmp_path, given), "--until-caught-up", "--timeout", "120")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"caught up: 4 partitions, 404 records \(.*\) in .*\n", done.stdout)
    assert "starting Spark at local[512,1]" in done.stderr
    assert "east->west is RUNNING" in done.stderr
    assert "Traceback" not in done.stderr
    must_be_equal(source, target, first, records=200)
    must_be_equal(source, target, second, records=204)


def test_a_filter_that_matches_nothing_is_told_and_no_success(east, west, tmp_path):
    given = mirror.settings(
        east.client_properties(), west.client_properties(), topics="no-such-topic", spark=INLINE
    )
    done = mm2("run", write(tmp_path, given), "--until-caught-up", "--timeout", "60")
    assert done.returncode == 1, done.stderr
    assert "east->west: no topic of the source matches topics" in done.stdout


@pytest.mark.full  # its quick form is that of test_bad_input
def test_a_cluster_that_cannot_be_reached_is_told_and_others_go_on(east, west, topic, tmp_path):
    source, target = east.client_properties(), west.client_properties()
    name = topic()
    fill(source, name, partitions=1, records=10)
    given = mirror.settings(east.client_properties(), west.client_properties(), topics=[name])
    reserved = port_reservation.reserve_port()
    given["clusters"]["north"] = {"bootstrap.servers": f"127.0.0.1:{reserved.port}"}
    given["flows"].append({"from": "north", "to": "west", "replication.factor": 1})
    done = mm2("run", write(tmp_path, given), "--until-caught-up", "--timeout", "90")
    assert done.returncode == 1, done.stderr
    assert "not caught up within 90 s" in done.stdout
    unreached = f"north->west: PLANNING: .*127.0.0.1:{reserved.port}"
    assert re.search(unreached, done.stdout), done.stdout
    assert "east->west" not in done.stdout.partition("\n")[2]
    assert "north->west is PLANNING" in done.stderr
    must_be_equal(source, target, name, records=50)


@pytest.mark.full  # its quick form is that of test_bad_input
def test_a_wrong_password_ends_with_a_clear_error(own_cluster, west, tmp_path):
    secure = own_cluster("east", users=())
    given = mirror.settings(secure.client_properties(), west.client_properties())
    properties = given["clusters"]["east"]
    secret = "certainly-not-the-password"
    properties["sasl.jaas.config"] = re.sub(
        r'password="[^"]*"', f'password="{secret}"', properties["sasl.jaas.config"]
    )
    done = mm2("run", write(tmp_path, given), timeout_s=90.0)
    assert done.returncode == 1, done.stderr
    (line,) = [each for each in done.stderr.splitlines() if each.startswith("mm2: ")]
    assert "east->west" in line
    assert re.search("authenticat|credentials|password", line, re.IGNORECASE)
    assert secret not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("clusters:\n  east: {bootstrap.servers: [}\n", ":2"),
        ("clusters:\n  a: {bootstrap.servers: 'x:1'}\nflows:\n  - {from: a, to: b}\n", ":4"),
        ("\x00\x01", ""),
        ("- just\n- a list\n", ":1"),
    ],
)
def test_garbage_is_bad_input_with_file_and_line(text, place, tmp_path):
    path = tmp_path / "garbage.yaml"
    path.write_text(text)
    done = mm2("run", path)
    assert done.returncode == 2, done.stderr
    assert f"{path}{place}" in done.stderr
    assert "nothing was started" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)]
)
def test_a_signal_stops_in_order_and_the_next_run_goes_on_exactly(
    number, east, west, topic, tmp_path
):
    source, target = east.client_properties(), west.client_properties()
    name = topic()
    fill(source, name, partitions=2)
    given = mirror.settings(east.client_properties(), west.client_properties(), topics=[name])
    with Mirror(tmp_path, given) as running:
        eventually.eventually(
            lambda: running.figure("mm2_replicated_records_total", topic=name) == 200, 90.0
        )
        assert running.figure("mm2_replication_lag_records", topic=name) == 0
        assert running.figure("mm2_flow_state", state="RUNNING") == 1
        asked_s = NOW_S()
        running.signal(number)
        assert running.wait(30.0) == 128 + number
        took_s = NOW_S() - asked_s
    assert took_s < STOP_LIMIT_S, running.tail
    assert "stopping: waiting for in-flight batches" in running.log
    kafka.produce(source, name, [Outgoing(value=b"afterwards")])
    path = write(tmp_path, given | {"spark": INLINE})  # how it goes on does not depend on Spark
    done = mm2("run", path, "--until-caught-up", "--timeout", "90")
    assert done.returncode == 0, done.stderr
    assert "caught up: 2 partitions, 1 record " in done.stdout
    must_be_equal(source, target, name, records=201)


def test_a_terminal_gets_a_table_and_its_cursor_back(east, west, topic, tmp_path):
    name = topic()
    fill(east.client_properties(), name, partitions=1, records=5)
    given = mirror.settings(
        east.client_properties(), west.client_properties(), topics=[name], spark=INLINE
    )
    path = write(tmp_path, given)
    shown, code = on_a_terminal("run", str(path), "--until-caught-up", "--timeout", "90")
    assert code == 0, shown
    for words in (
        "TOPIC",
        "RECORDS/S",
        "pass-through",
        "COPYING",
        "100 %",
        "caught up: 1 partition",
    ):
        assert words in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def on_a_terminal(*arguments: str, timeout_s: float = 150.0) -> tuple[str, int]:
    """Everything that appears on a terminal of 24 lines of 120 columns, and the exit code."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*mirror.COMMAND, *arguments],
        cwd=mirror.ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(mirror.ROOT),
            "TERM": "xterm-256color",
            "COLUMNS": "120",
            "LINES": "24",
        },
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = bytearray()
    end_s = NOW_S() + timeout_s
    try:
        while NOW_S() < end_s:
            if not select.select([ours], [], [], 1.0)[0]:
                continue
            try:
                shown += os.read(ours, 65_536)
            except OSError:  # how a pseudo-terminal says that nobody writes any more
                break
        return shown.decode(errors="replace"), child.wait(10.0)
    finally:
        child.kill()
        child.wait()
        os.close(ours)
