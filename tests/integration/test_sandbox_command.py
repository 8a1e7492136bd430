"""`mm2 sandbox`: up leaves one supervisor, down leaves nothing, and a killed one is found out."""

from __future__ import annotations

import json
import os
import signal

import pytest

from connect_runtime.system import processes
from mm2.sandbox import sandbox, state
from tests.support import kafka, mirror
from tests.support import processes as process_table
from tests.support.eventually import eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]


@pytest.fixture
def home(tmp_path):
    """A sandbox folder; whatever a failed test leaves in it is ended."""
    home = state.Home(tmp_path / "sandbox")
    yield home
    sandbox.down(home.folder)


def _run(home, *words):
    return mirror.mm2("sandbox", *words, "--dir", home.folder)


def test_up_serves_and_down_leaves_nothing(home):
    up = _run(home, "up", "east", "west", "--json", "--set", "message.max.bytes=3000000")
    assert up.returncode == 0, up.stderr
    clusters = json.loads(up.stdout)["clusters"]
    assert sorted(clusters) == ["east", "west"]
    for access in clusters.values():
        kafka.create_topic(access, "t", config={"max.message.bytes": "2999999"})
        kafka.produce(access, "t", [kafka.Outgoing(value=b"x")])

    again = _run(home, "up", "east", "west", "--json", "--set", "message.max.bytes=3000000")
    other = _run(home, "up", "north")
    said = _run(home, "status", "--json")
    logs = _run(home, "logs", "west", "--tail", "3")
    assert (again.returncode, "already up" in again.stderr) == (0, True)
    assert json.loads(again.stdout) == json.loads(said.stdout) == json.loads(up.stdout)
    assert other.returncode == 1
    assert "already up" in other.stderr
    assert "mm2 sandbox down" in other.stderr
    assert logs.returncode == 0
    assert len(logs.stdout.splitlines()) == 4

    pids = process_table.mentioning(home.folder)
    down = _run(home, "down")
    assert (down.returncode, down.stderr.strip()) == (0, "down")
    assert len(pids) == 5, "a supervisor, and a broker and its guard for each cluster"
    assert not any(processes.alive(pid) for pid in pids)
    assert not home.clusters.exists()
    assert _run(home, "status").returncode == 1
    assert _run(home, "down").stderr.strip() == "nothing was up"


def test_brokers_die_with_a_killed_supervisor_and_the_next_up_cleans(home):
    assert _run(home, "up", "east").returncode == 0
    first = process_table.mentioning(home.folder)
    os.kill(home.supervisor_pid(), signal.SIGKILL)
    eventually(lambda: not process_table.mentioning(home.folder), 10, "all died with it")

    said = _run(home, "status")
    assert (said.returncode, said.stderr.strip()) == (1, "no sandbox is up")
    up = _run(home, "up", "east")
    assert up.returncode == 0, up.stderr
    assert "already" not in up.stderr
    assert not set(first) & set(process_table.mentioning(home.folder))


def test_a_secure_sandbox_prints_what_its_client_needs_and_hides_its_files(home):
    up = _run(home, "up", "east", "--secure", "--json")
    assert up.returncode == 0, up.stderr
    access = json.loads(up.stdout)["clusters"]["east"]

    name = kafka.create_topic(access, "t")
    kafka.produce(access, name, [kafka.Outgoing(value=b"x")])

    assert [record.value for record in kafka.read_partition(access, name)] == [b"x"]
    assert home.folder.stat().st_mode & 0o077 == 0


def test_clusters_that_do_not_start_say_why_and_leave_nothing(home):
    up = _run(home, "up", "east", "--set", "num.io.threads=many")

    assert up.returncode == 1
    assert "num.io.threads" in up.stderr
    eventually(lambda: not process_table.mentioning(home.folder), 10, "nothing runs")
    assert _run(home, "status").returncode == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["up"], "Missing argument"),
        (["up", "ea/st"], "letters, digits"),
        (["up", "east", "east"], "name each cluster once"),
        (["up", "east", "--brokers", "2"], "'2' is not one of"),
        (["up", "east", "--set", "key"], "is not KEY=VALUE"),
        (["logs", "east"], "no logs of east"),
    ],
)
def test_bad_words_are_refused_before_anything_starts(home, words, message):
    refused = _run(home, *words)

    assert refused.returncode != 0
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr
