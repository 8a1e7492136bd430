"""`mm2 demo` as a newcomer types it: what it proves, how it fails, what it leaves: nothing."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from connect_runtime.config import java_properties
from connect_runtime.system import child_processes, java_installation
from tests.support import eventually, kafka
from tests.support import processes as support_processes
from tests.support.kafka import Outgoing

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

README = support_processes.ROOT / "README.md"
STEP_S = 150.0
SMALL = ("--seconds", "2", "--records", "100")
CLUSTERS_UP = "two Kafka clusters are up"
TRAFFIC_SENT = "real clients have filled"
BACKLOG_COPIED = "the first records were replicated"
OUR_TRACE = f'File "{support_processes.ROOT}/mm2/'
KEPT = "Running until Ctrl-C"
PASSWORD = re.compile(r'(?:password|user_\w+)="([^"]+)"')


class Demo:
    """One `mm2 demo`. Its processes are known by a mark in their environment."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.folder = folder / "t"
        self.folder.mkdir()
        self._out, self._err = folder / "stdout", folder / "stderr"
        mark = ("MM2_TEST_MARK", secrets.token_hex(8))
        self._mark = "=".join(mark)
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mm2.cli.main", "demo", *arguments],
                cwd=support_processes.ROOT,
                env=dict(
                    [*os.environ.items(), mark],
                    PYTHONPATH=str(support_processes.ROOT),
                    TMPDIR=str(self.folder),
                    **environment,
                ),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    def await_words(self, words: str) -> None:
        def said() -> bool:
            assert self.process.poll() is None, self.stdout + self.stderr
            return words in self.stdout + self.stderr

        eventually.eventually(said, STEP_S, lambda: f"{words!r} in\n{self.stdout}{self.stderr}")

    def finish(self) -> int:
        return self.process.wait(STEP_S)

    def processes(self) -> list[int]:
        """All that it started and that is still there, itself included."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and self._mark.encode() in (
                    entry / "environ"
                ).read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return [pid for pid in found if child_processes.is_process_alive(pid)]

    def access(self, name: str) -> dict[str, str]:
        """The client properties of a cluster, which has said where it is."""
        (path,) = self.folder.glob(f"mm2-demo-*/{name}.client.properties")
        properties = java_properties.parse_properties(path.read_text())
        assert f"{name} at {properties['bootstrap.servers']}" in self.stderr
        return properties

    def passwords(self) -> set[str]:
        """Those of all users of both clusters."""
        paths = self.folder.glob("mm2-clusters-*/*/broker-*/server.properties")
        return {each for path in paths for each in PASSWORD.findall(path.read_text())}


@pytest.fixture
def demo() -> Iterator[Callable[..., Demo]]:
    """Starts demos, in short paths: names of Unix sockets have 107 characters at most."""
    folder = Path(tempfile.mkdtemp(prefix="demo-"))
    started: list[Demo] = []

    def start(*arguments: str, **environment: str) -> Demo:
        started.append(Demo(folder, *arguments, **environment))
        return started[-1]

    try:
        yield start
    finally:
        for each in started:
            each.process.kill()
            each.process.wait(10)
        shutil.rmtree(folder)


def nothing_is_left(of: Demo) -> None:
    eventually.eventually(lambda: not of.processes(), 10, lambda: str(of.processes()))


def left_behind(of: Demo) -> list[Path]:
    """Files and folders; where all sandboxes of a user keep their locks may stay."""
    locks = {f"mm2-ports-{os.getuid()}", f"mm2-clusters-{os.getuid()}"}
    return [
        path
        for top in of.folder.iterdir()
        for path in (top.glob("*/*") if top.name in locks else [top])
    ]


def test_the_demo_proves_every_record_equal(demo):
    running = demo(*SMALL)
    assert running.finish() == 0, running.stdout + running.stderr
    shown = running.stdout
    assert "DIFFERENT" not in shown
    assert shown.count("all records equal") == 14, shown  # one a topic
    assert re.search(r"^proof +all records equal: key,", shown, re.MULTILINE), shown
    assert re.search(r"^trickle +2 +[1-9]", shown, re.MULTILINE)
    assert re.search(r"^records +[\d,]+ \([\d.]+ MB .* in 14 topics$", shown, re.MULTILINE)
    assert re.search(r"^throughput +[\d.]+ MB/s, [\d,]+ records/s", shown, re.MULTILINE)
    assert re.search(r"^latency +p50 [\d.]+ ms, p99 [\d.]+ ms", shown, re.MULTILINE)
    moved = re.search(
        r"^ +each of the ([\d,]+) records sent was processed once$", shown, re.MULTILINE
    )
    assert moved is not None, shown
    assert int(moved[1].replace(",", "")) >= 500
    assert re.search(r"^failover +[1-9][\d,]* .* on east, [1-9][\d,]* on west", shown, re.MULTILINE)
    for words in (CLUSTERS_UP, TRAFFIC_SENT, BACKLOG_COPIED):
        assert words in running.stderr
    assert OUR_TRACE not in running.stderr
    assert missing_lines_of_readme(running.stderr + shown) == []
    nothing_is_left(running)
    assert left_behind(running) == []


def missing_lines_of_readme(said: str) -> list[str]:
    """Lines of README's excerpt that the demo did not print in this order, whatever the numbers."""
    (excerpt,) = re.findall(r"```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    rest = iter([without_numbers(line) for line in said.splitlines()])
    missing = []
    for line in filter(str.strip, excerpt.splitlines()):
        pattern = re.compile(".*".join(map(re.escape, without_numbers(line).split("…"))))
        if not any(pattern.search(each) for each in rest):
            missing.append(line)
    return missing


def without_numbers(line: str) -> str:
    return " ".join(re.sub(r"\d[\d,.:]*", "#", line).split())


@pytest.mark.full
def test_a_stranger_in_the_mirror_is_seen_and_is_a_failure(demo):
    running = demo("--seconds", "6", "--records", "100")
    running.await_words(BACKLOG_COPIED)
    kafka.produce(running.access("west"), "east.codec-none", [Outgoing(value=b"a stranger")])
    assert running.finish() == 1, running.stdout + running.stderr
    assert "codec-none-0: extra 1, " in running.stdout, running.stderr
    assert "DIFFERENT in 1 partition" in running.stdout
    assert running.stdout.count("all records equal") == 12
    nothing_is_left(running)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(CLUSTERS_UP, marks=pytest.mark.full),
        pytest.param(TRAFFIC_SENT, marks=pytest.mark.full),
        BACKLOG_COPIED,
    ],
)
def test_ctrl_c_leaves_nothing_running(demo, moment):
    running = demo("--seconds", "60", "--records", "100")
    running.await_words(moment)
    assert len(running.processes()) > 2
    running.process.send_signal(signal.SIGINT)
    assert running.finish() == 130
    assert OUR_TRACE not in running.stderr
    nothing_is_left(running)
    assert left_behind(running) == []


@pytest.mark.full
def test_a_second_ctrl_c_ends_it_at_once(demo):
    running = demo("--seconds", "60", "--records", "100")
    running.await_words(BACKLOG_COPIED)
    running.process.send_signal(signal.SIGTERM)
    running.process.send_signal(signal.SIGTERM)
    assert running.finish() == 143
    nothing_is_left(running)


@pytest.mark.full
def test_keep_goes_on_until_ctrl_c(demo):
    running = demo("--keep", *SMALL)
    running.await_words(KEPT)
    assert "all records equal" in running.stdout
    west = running.access("west")
    assert west["bootstrap.servers"] in running.stdout
    _, before = kafka.offsets(west, "east.trickle")
    eventually.eventually(lambda: kafka.offsets(west, "east.trickle")[1] > before, 60)
    settings = re.search(r"settings +(\S+);", running.stdout)
    assert settings is not None
    assert Path(settings[1]).exists()
    passwords = running.passwords()
    assert len(passwords) == 4, "of a broker and an admin in each cluster"
    for path in (Path(settings[1]), *running.folder.glob("mm2-demo-*/*.client.properties")):
        assert any(each in path.read_text() for each in passwords)
        assert (path.stat().st_mode | path.parent.stat().st_mode) & 0o077 == 0
    command = re.search(r"^ +java (-cp .*)$", running.stdout, re.MULTILINE)
    assert command is not None
    assert b"." in read_with_console_consumer(command[1])
    running.process.send_signal(signal.SIGINT)
    assert running.finish() == 130
    assert not [each for each in passwords if each in running.stdout + running.stderr]
    nothing_is_left(running)
    assert left_behind(running) == []


def read_with_console_consumer(arguments: str) -> bytes:
    """The values of five records, read with the printed command."""
    words = [*shlex.split(arguments), "--max-messages", "5"]
    java = java_installation.find_java().program
    done = subprocess.run([java, *words], capture_output=True, timeout=STEP_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_java_it_says_so_in_one_line(demo, tmp_path):
    running = demo(PATH=str(tmp_path), JAVA_HOME="")
    assert running.finish() == 1
    (line,) = running.stderr.splitlines()
    assert line.startswith("mm2: Java was not found: install ")
    assert running.stdout == ""


@pytest.mark.parametrize("arguments", [("--seconds", "0"), ("--records", "x"), ("more",)])
def test_what_makes_no_sense_is_refused(demo, arguments):
    assert demo(*arguments).finish() == 2
