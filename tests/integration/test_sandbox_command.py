"""`mm2 sandbox`: up leaves one supervisor, down leaves nothing, and a killed one is found out."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import ssl
import subprocess
import zipfile

import pytest

from connect_runtime.system import child_processes
from mm2.sandbox import kafka_jars, kafka_tools, sandbox_lifecycle, sandbox_supervisor
from mm2.sandbox.sandbox_state import SandboxFolder
from tests.support import kafka, mirror
from tests.support import processes as support_processes
from tests.support.eventually import eventually
from tests.support.kafka import Outgoing

TLS_HANDSHAKE = b"\x16\x03"
"""Record type and major version of a ClientHello."""

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]


@pytest.fixture
def home(tmp_path):
    """A sandbox folder; whatever a failed test leaves in it is ended."""
    home = SandboxFolder(tmp_path / "sandbox")
    yield home
    sandbox_lifecycle.stop_sandbox(home.folder)


def _run(home, *words):
    return mirror.mm2("sandbox", *words, "--dir", home.folder)


def test_up_serves_and_down_leaves_nothing(home):
    up = _run(home, "up", "east", "west", "--json", "--set", "message.max.bytes=3000000")
    assert up.returncode == 0, up.stderr
    clusters = json.loads(up.stdout)["clusters"]
    assert sorted(clusters) == ["east", "west"]
    for access in clusters.values():
        kafka.create_topic(access, "t", config={"max.message.bytes": "2999999"})
        kafka.produce(access, "t", [Outgoing(value=b"x")])

    again = _run(home, "up", "east", "west", "--json", "--set", "message.max.bytes=3000000")
    other = _run(home, "up", "north")
    said = _run(home, "status", "--json")
    logs = _run(home, "logs", "west", "--tail", "3")
    assert (again.returncode, "already up" in again.stderr) == (0, True)
    assert json.loads(again.stdout) == json.loads(said.stdout) == json.loads(up.stdout)
    assert other.returncode == 1
    assert "already running" in other.stderr
    assert "mm2 sandbox down" in other.stderr
    assert logs.returncode == 0
    assert len(logs.stdout.splitlines()) == 4

    pids = support_processes.mentioning(home.folder)
    down = _run(home, "down")
    assert (down.returncode, down.stderr.strip()) == (0, "sandbox stopped and removed")
    assert len(pids) == 5, "a supervisor, and a broker and its guard for each cluster"
    assert not any(child_processes.is_process_alive(pid) for pid in pids)
    assert not home.clusters.exists()
    assert _run(home, "status").returncode == 1
    assert _run(home, "down").stderr.strip() == "no sandbox was running"


def test_brokers_die_with_a_killed_supervisor_and_the_next_up_cleans(home):
    assert _run(home, "up", "east").returncode == 0
    first = support_processes.mentioning(home.folder)
    os.kill(home.read_supervisor_pid(), signal.SIGKILL)
    eventually(lambda: not support_processes.mentioning(home.folder), 10, "all died with it")

    said = _run(home, "status")
    assert (said.returncode, said.stderr.strip()) == (1, f"no sandbox is running in {home.folder}")
    up = _run(home, "up", "east")
    assert up.returncode == 0, up.stderr
    assert "already" not in up.stderr
    assert not set(first) & set(support_processes.mentioning(home.folder))


SHELL = """\
set -eu -o pipefail
mm2() {{ {command} "$@"; }}
eval "$(mm2 sandbox env --dir {folder})"
echo "east is at $EAST, my-west at $MY_WEST"
mm2 sandbox kafka topics --dir {folder} --cluster east --create --topic orders
seq 1 3 | mm2 sandbox kafka console-producer --dir {folder} --cluster east --topic orders
mm2 sandbox kafka console-consumer --dir {folder} --cluster east --topic orders \
  --from-beginning --max-messages 3
mm2 sandbox kafka topics --dir {folder} --cluster my-west --describe --topic orders && exit 9
mm2 sandbox kafka acls --dir {folder} --cluster east --add --allow-principal User:x \
  --operation Create --cluster
mm2 sandbox kafka cluster --dir {folder} --cluster east cluster-id
kafka=$(mm2 sandbox kafka get-offsets --dir {folder} --topic orders \
  --bootstrap-server $EAST --command-config $EAST_CONFIG)
echo "offsets $kafka"
"""


@pytest.mark.timeout(500)
def test_kafkas_tools_run_against_secure_clusters_whose_usual_port_is_in_use(home):
    """The port in use is reported, and no client sends anything to the program behind it."""
    with contextlib.ExitStack() as stack:
        foreign = None
        with contextlib.suppress(OSError):  # another sandbox of this machine has it just now
            foreign = stack.enter_context(
                socket.create_server(("127.0.0.1", sandbox_supervisor.FIRST_BROKER_PORT))
            )
        up = _run(home, "up", "east", "my-west", "--secure")
        assert up.returncode == 0, up.stderr
        address = _run(home, "env", "--json").stdout
        east = json.loads(address)["variables"]["EAST"]
        port = east.rpartition(":")[2]
        if foreign is not None:
            taken = (
                f"port {sandbox_supervisor.FIRST_BROKER_PORT} is in use: east uses {port} instead"
            )
            assert taken in up.stderr.splitlines()

        script = SHELL.format(
            command=shlex.join(mirror.COMMAND), folder=shlex.quote(str(home.folder))
        )
        said = subprocess.run(
            ["bash", "-c", script],
            env={**os.environ, "PYTHONPATH": str(mirror.ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert said.returncode == 0, said.stdout + said.stderr
        if foreign is not None:
            assert _tls_sent_to(foreign) == []
    lines = said.stdout.splitlines()
    assert lines[0].startswith(f"east is at {east}, my-west at 127.0.0.1:")
    assert [line for line in lines if line.isdigit()] == ["1", "2", "3"]
    assert "resourceType=CLUSTER" in said.stdout
    assert "Cluster ID: " in said.stdout
    assert lines[-1] == "offsets orders:0:3"
    access = json.loads(_run(home, "status", "--json").stdout)["clusters"]["east"]
    assert [record.value for record in kafka.read_partition(access, "orders")] == [b"1", b"2", b"3"]
    assert home.folder.stat().st_mode & 0o077 == 0
    assert home.get_client_properties_path("east").stat().st_mode & 0o077 == 0
    assert _run(home, "down", "--json").stdout == '{"version": 1, "was_up": true}\n'
    assert not home.get_client_properties_path("east").exists()


def _tls_sent_to(listener: socket.socket) -> list[bytes]:
    """First bytes of each connection whose client began a TLS handshake.

    Clients of a secure sandbox begin so. Clients of other tests that had a plaintext broker at this
    port may still try to reach it.
    """
    listener.setblocking(False)
    handshakes: list[bytes] = []
    while True:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            return handshakes
        with connection, contextlib.suppress(BlockingIOError, ConnectionError):
            sent = connection.recv(100, socket.MSG_DONTWAIT)
            if sent.startswith(TLS_HANDSHAKE):
                handshakes.append(sent)


def test_a_tls_client_of_a_foreign_program_is_seen():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as client:
            client.sendall(b"\x00\x00\x00\x40 plaintext")
        assert _tls_sent_to(listener) == []
        with socket.create_connection(listener.getsockname()) as client:
            client.sendall(b"\x00\x00\x00\x40 plaintext")
            with socket.create_connection(listener.getsockname()) as secure:
                incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                tls = ssl.create_default_context().wrap_bio(
                    incoming, outgoing, server_hostname="localhost"
                )
                with contextlib.suppress(ssl.SSLWantReadError):
                    tls.do_handshake()
                secure.sendall(outgoing.read())
                assert len(_tls_sent_to(listener)) == 1


def test_status_shows_a_broker_that_is_dead_and_one_that_does_not_answer(home):
    assert _run(home, "up", "east", "west").returncode == 0
    told = json.loads(_run(home, "status", "--json").stdout)["servers"]
    east, west = told["east"][0]["pid"], told["west"][0]["pid"]
    os.kill(east, signal.SIGKILL)
    os.kill(west, signal.SIGSTOP)
    try:
        eventually(lambda: not child_processes.is_process_alive(east), 10, "it has ended")
        said = _run(home, "status")
    finally:
        os.kill(west, signal.SIGCONT)
    again = _run(home, "status", "--json")

    assert said.returncode == 1
    assert f": dead: process {east} has ended; its log: {home.clusters}/east/" in said.stdout
    assert f": not responding: process {west} exists, but did not respond" in said.stdout
    assert "not up: broker 1 of east, broker 1 of west" in said.stderr
    assert again.returncode == 1
    servers = json.loads(again.stdout)["servers"]
    assert [servers[name][0]["health"] for name in ("east", "west")] == ["dead", "up"]


def test_every_tool_of_kafkas_is_in_the_jars():
    classes = {
        name.removesuffix(".class").replace("/", ".")
        for jar in kafka_jars.ensure_jars().glob("*.jar")
        for name in zipfile.ZipFile(jar).namelist()
    }
    assert {tool.main_class for tool in kafka_tools.TOOLS.values()} <= classes


def test_clusters_that_do_not_start_say_why_and_leave_nothing(home):
    up = _run(home, "up", "east", "--set", "num.io.threads=many")

    assert up.returncode == 1
    assert "num.io.threads" in up.stderr
    eventually(lambda: not support_processes.mentioning(home.folder), 10, "nothing runs")
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
