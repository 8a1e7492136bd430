from __future__ import annotations

import gc
import warnings
from pathlib import Path

import pytest

from mm2.sandbox import containers, kafka_releases, sandbox_lifecycle
from mm2.sandbox.containers import ContainerRunner
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.sandbox.sandbox_errors import SandboxError
from mm2.sandbox.sandbox_state import SandboxRequest

FOLDER = Path("/somewhere/east")


def test_images_are_apaches_own():
    assert (
        containers.find_image(kafka_releases.NEWEST_RELEASE)
        == f"apache/kafka:{kafka_releases.NEWEST_RELEASE.version}"
    )


@pytest.mark.parametrize(
    "ask",
    [
        lambda: SandboxCluster("old", kafka_version="2.8", in_containers=True),
        lambda: SandboxRequest(names=("old",), kafka_version="2.8", in_containers=True).validate(),
    ],
)
def test_a_release_without_an_image_is_refused_with_the_way_out(ask):
    with pytest.raises(SandboxError, match=r"2\.8\.2 cannot run in a container.*--in-containers"):
        ask()


def test_without_a_daemon_it_is_said_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with warnings.catch_warnings():
        # Docker's library leaves a socket that did not connect to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        with pytest.raises(
            SandboxError, match=r"the Docker daemon does not respond .*start it, or"
        ):
            sandbox_lifecycle.start_sandbox(
                tmp_path / "sandbox",
                SandboxRequest(names=("east",), in_containers=True),
                report=lambda line: None,
            )
        gc.collect()


def test_kafkas_scripts_get_our_flags_and_the_settings_file_of_the_shared_folder():
    runner = ContainerRunner(image="apache/kafka:4.3.1", folder=FOLDER)
    argv = runner.make_broker_command(
        FOLDER / "server.properties", flags=("-Xmx384m", "-XX:+UseSerialGC")
    )
    assert argv[0] == "env"
    assert "KAFKA_HEAP_OPTS=-Xmx384m -XX:+UseSerialGC" in argv
    assert argv[-2] == "/opt/kafka/bin/kafka-server-start.sh"
    assert argv[-1] == "/somewhere/east/server.properties"
    tool = runner.make_storage_tool_command("format", "--cluster-id", "abc", flags=())
    assert tool[-4:] == ["/opt/kafka/bin/kafka-storage.sh", "format", "--cluster-id", "abc"]
