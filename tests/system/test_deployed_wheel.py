"""The image, without a Docker daemon: each line of the Dockerfile is carried out on this machine,
outside the checkout, and what comes of it runs as its user on a read-only file system.

Where a daemon answers, the image itself is built and run, too.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from email.parser import Parser
from pathlib import Path

import pytest

from connect_runtime.system import child_processes, secure_file_access
from mm2.sandbox import kafka_releases
from tests.support import eventually, mirror
from tests.support.image import dockerfile, stand_in
from tests.support.image.stand_in import CannotStandInError, Place, StandIn

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

BUILD_S = 800.0
DEMO_S = 200.0
START_S = 120.0
STOP_S = 30.0
STATE = "/var/lib/mm2"
SCRATCH = Place(path="/tmp")
SCRATCH_OF_BROKERS = Place(path="/tmp", executable=True)
"""Java's brokers load libraries from there."""
SETTINGS = """\
clusters:
  east: {bootstrap.servers: '${env:EAST}'}
  west: {bootstrap.servers: '${env:WEST}'}
flows: [{from: east, to: west, replication.factor: 1}]
rest: {listeners: 'http://0.0.0.0:8090', rest.advertised.host.name: '${env:POD_IP}'}
metrics: {host: 0.0.0.0}
"""
PAGE = "http://127.0.0.1:9464/ui"


@pytest.fixture(scope="module")
def image() -> Iterator[StandIn]:
    """The image, stood in for by this machine."""
    try:
        stand_in.check()
    except CannotStandInError as error:
        pytest.skip(f"no mount namespaces here, which the image's stand-in needs: {error}")
    folder = Path(tempfile.mkdtemp(prefix="mm2-image-"))
    stages = dockerfile.parse((mirror.ROOT / "deploy" / "Dockerfile").read_text())
    try:
        made = StandIn(folder, checkout=mirror.ROOT, stages=stages)
        made.build()
        yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def wheel(image: StandIn) -> zipfile.ZipFile:
    (found,) = (image.built / "opt" / "wheels" / "ours").glob("*.whl")
    return zipfile.ZipFile(found)


@pytest.fixture
def state() -> Iterator[Callable[[int], Place]]:
    """The volume of a user id: only the jars of Kafka are there, which the demo would fetch."""
    folder = Path(tempfile.mkdtemp(prefix="mm2-state-"))

    def of(user: int) -> Place:
        cache = folder / "cache"
        cache.mkdir(mode=0o700)
        for each in secure_file_access.find_user_cache_directory().glob(
            f"{kafka_releases.NEWEST_RELEASE.jars.name}*"
        ):
            (shutil.copytree if each.is_dir() else shutil.copy2)(each, cache / each.name)
        subprocess.run(["chown", "-R", f"{user}:{user}", str(folder)], check=True)
        return Place(path=STATE, folder=folder)

    try:
        yield of
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(argv: list[str], timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)


# The wheel


def test_the_wheel_has_every_file_of_the_packages_and_no_other(wheel):
    packages = ("connect_runtime", "mm2")
    listed = run(["git", "-C", str(mirror.ROOT), "ls-files", *packages]).stdout.split()
    ours = {name for name in listed if (mirror.ROOT / name).exists()}
    assert len(ours) > 600
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert ours <= packed
    assert not [name for name in packed - ours if not (mirror.ROOT / name).is_file()]
    assert not [name for name in packed if name.endswith((".pyc", ".map")) or "test" in name]


def test_the_wheel_says_what_it_is(wheel):
    (name,) = (each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
    said = Parser().parsestr(wheel.read(name).decode())
    assert said["Name"] == "mm2"
    assert said["Requires-Python"] == ">=3.11"
    assert said["License-Expression"] == "Apache-2.0"
    assert not [each for each in said.get_all("Requires-Dist") if "pytest" in each]
    (licence,) = (each for each in wheel.namelist() if each.endswith("/licenses/LICENSE"))
    assert wheel.read(licence) == (mirror.ROOT / "LICENSE").read_bytes()


# What is installed


def test_what_is_installed_is_whole_and_the_commands_begin(image, state):
    places = [SCRATCH, state(10_001)]
    for command in ("mm2", "connect-distributed", "connect-standalone"):
        done = run(image.command(command, "--help", places=places))
        assert "Usage: " in done.stdout, done.stderr
    connectors = "from importlib.metadata import entry_points as found\n"
    connectors += "[each.load() for each in found(group='connect_runtime.plugins')]"
    for code in (connectors, "import importlib.metadata as m; m.distribution('hatchling')"):
        done = run(image.command("python3", "-c", code, places=places))
        assert (done.returncode == 0) is (code is connectors), done.stderr


def test_nothing_of_the_checkout_and_no_right_of_roots_is_there(image):
    script = f"id -u; ls {mirror.ROOT}; touch /opt/mm2/x; grep Cap /proc/self/status"
    said = run(image.command("sh", "-c", script, places=[]))
    assert said.stdout.split()[0] == "10001"
    assert not re.search(r"^Cap\w+:\s+0*[1-9a-f]", said.stdout, re.MULTILINE), said.stdout
    assert "pyproject.toml" not in said.stdout
    assert "touch: cannot touch '/opt/mm2/x': Read-only file system" in said.stderr


def test_what_writes_elsewhere_is_seen(image):
    """What judges the demo: a file outside of the named places cannot be made."""
    argv = image.command("sh", "-c", f"touch {STATE}/x && touch /etc/mm2/x", places=[SCRATCH])
    assert "Read-only file system" in run(argv).stderr


@pytest.mark.full
def test_the_demo_runs_in_it(image, state):
    volume = state(10_001)
    done = run(
        image.command(
            *("mm2", "demo", "--seconds", "2", "--records", "100"),
            places=[SCRATCH_OF_BROKERS, volume],
        ),
        DEMO_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DIFFERENT" not in done.stdout
    assert done.stdout.count("all records equal") == 14, done.stdout
    assert "proof       all records equal: " in done.stdout
    assert volume.folder is not None
    assert [each.name for each in volume.folder.iterdir()] == ["cache"]


NAMELESS = 54_321
"""A user id that the image has no name for, as platforms give them."""


class Running:
    """The image's own command as the first process of its container, between two clusters."""

    def __init__(self, image: StandIn, folder: Path, volume: Place) -> None:
        self._image = image
        self._log = folder / "log"
        settings = folder / "clusters.yaml"
        settings.write_text(SETTINGS)
        settings.chmod(0o644)
        script = (
            "mm2 sandbox up east west; "
            'export POD_IP=127.0.0.1; eval "$(mm2 sandbox env)"; '
            f"exec {' '.join(image.own_words)}"
        )
        argv = image.command(
            *("sh", "-ec", script),
            places=[SCRATCH, volume],
            files={"/etc/mm2/clusters.yaml": settings},
            user=NAMELESS,
        )
        with self._log.open("wb") as output:
            self.child = child_processes.start_process(argv, output=output, cwd=Path("/"))

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def await_log(self, pattern: str) -> None:
        def said() -> bool:
            assert self.child.poll() is None, self.log
            return re.search(pattern, self.log) is not None

        eventually.eventually(said, START_S, lambda: f"{pattern!r} in\n{self.log}")

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`docker exec`."""
        return self._image.inside(self.first, *words, user=NAMELESS)

    @property
    def first(self) -> int:
        """The process id, here, of the first process inside."""
        found = stand_in.first_process(self.child)
        assert found is not None, self.log
        return found


def zombies(running: Running) -> list[str]:
    """What has ended inside without a parent, and the first process has not taken note of.

    Spark's launcher leaves one to its JVM, which takes no note of it, wherever it runs.
    """
    listed = running.ask("sh", "-c", "cat /proc/[0-9]*/stat").stdout.splitlines()
    return [line for line in listed if line.rpartition(")")[2].split()[:2] == ["Z", "1"]]


@pytest.fixture
def running(image, state, tmp_path) -> Iterator[Running]:
    made = Running(image, tmp_path, state(NAMELESS))
    try:
        yield made
    finally:
        made.child.kill()


def test_it_runs_as_any_user_is_healthy_reloads_and_stops_in_order(image, running):
    running.await_log(r"east->west is RUNNING")
    check = image.last.healthcheck
    eventually.eventually(
        lambda: running.ask(*check).returncode == 0,
        START_S,
        lambda: running.ask(*check).stderr + running.log,
        interval_s=1.0,
    )
    asking = f"import urllib.request as http; print(http.urlopen('{PAGE}').read())"
    assert "mm2" in running.ask("python3", "-c", asking).stdout
    found = running.ask("mm2", "status")
    assert "RUNNING" in found.stdout, found.stderr
    os.kill(running.first, signal.SIGHUP)
    running.await_log(r"reload")
    assert zombies(running) == []
    os.kill(running.first, signal.SIGTERM)
    assert running.child.wait(STOP_S) == 128 + signal.SIGTERM, running.log
    assert "Traceback" not in running.log


def test_the_health_check_sees_a_process_that_serves_nothing(image, tmp_path):
    argv = image.command("sleep", "300", places=[SCRATCH])
    with (tmp_path / "log").open("wb") as output:
        child = child_processes.start_process(argv, output=output, cwd=Path("/"))
    try:
        first = eventually.eventually(lambda: stand_in.first_process(child), 10.0)
        assert first is not None
        eventually.eventually(lambda: image.inside(first, "true").returncode == 0, 10.0)
        assert image.inside(first, *image.last.healthcheck).returncode == 1
    finally:
        child.kill()
    eventually.eventually(lambda: not child_processes.is_process_alive(first), 10.0)


@pytest.fixture(scope="module")
def built() -> str:
    """The image itself, made by the daemon of this machine."""
    if shutil.which("docker") is None or run(["docker", "info"]).returncode:
        pytest.skip("the Docker daemon does not respond")
    name = "mm2:of-a-test"
    file = str(mirror.ROOT / "deploy" / "Dockerfile")
    done = run(["docker", "build", "--file", file, "--tag", name, str(mirror.ROOT)], BUILD_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return name


@pytest.mark.docker
@pytest.mark.full
def test_the_image_itself_runs_the_demo(built, state):
    volume = state(10_001)
    sealed = ["--rm", "--read-only", "--cap-drop=ALL", "--tmpfs=/tmp:exec"]
    sealed.append(f"--volume={volume.folder}:{STATE}")
    demo = ["demo", "--seconds", "2", "--records", "100"]
    done = run(["docker", "run", *sealed, built, *demo], DEMO_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("all records equal") == 14, done.stdout
    assert "proof       all records equal: " in done.stdout
