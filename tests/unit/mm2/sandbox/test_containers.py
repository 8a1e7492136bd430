from __future__ import annotations

import gc
import warnings
from pathlib import Path

import pytest

from mm2.sandbox import cluster, containers, failures, releases, sandbox, state

FOLDER = Path("/somewhere/east")


def test_images_are_apaches_own():
    assert containers.image(releases.NEWEST) == f"apache/kafka:{releases.NEWEST.version}"


@pytest.mark.parametrize(
    "ask",
    [
        lambda: cluster.Cluster("old", kafka_version="2.8", in_containers=True),
        lambda: state.Request(names=("old",), kafka_version="2.8", in_containers=True).check(),
    ],
)
def test_a_release_without_an_image_is_refused_with_the_way_out(ask):
    with pytest.raises(failures.SandboxError, match=r"2\.8\.2 in a container.*--in-containers"):
        ask()


def test_without_a_daemon_it_is_said_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with warnings.catch_warnings():
        # Docker's library leaves a socket that did not connect to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        with pytest.raises(failures.SandboxError, match=r"no Docker daemon answers .*start it, or"):
            sandbox.up(
                tmp_path / "sandbox",
                state.Request(names=("east",), in_containers=True),
                report=lambda line: None,
            )
        gc.collect()


def test_kafkas_scripts_get_our_flags_and_the_settings_file_of_the_shared_folder():
    runner = containers.InContainers(image="apache/kafka:4.3.1", folder=FOLDER)
    argv = runner.broker(FOLDER / "server.properties", flags=("-Xmx384m", "-XX:+UseSerialGC"))
    assert argv[0] == "env"
    assert "KAFKA_HEAP_OPTS=-Xmx384m -XX:+UseSerialGC" in argv
    assert argv[-2] == "/opt/kafka/bin/kafka-server-start.sh"
    assert argv[-1] == "/somewhere/east/server.properties"
    tool = runner.storage_tool("format", "--cluster-id", "abc", flags=())
    assert tool[-4:] == ["/opt/kafka/bin/kafka-storage.sh", "format", "--cluster-id", "abc"]
