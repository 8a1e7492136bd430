"""What a process's engine is opened with, out of a file.

One data plane for a process: who opens it, who shares it, when another takes its place."""

from __future__ import annotations

import pathlib
from concurrent import futures

import pytest

from connect_runtime.api.errors import ConfigError, FatalError
from connect_runtime.system.system_clock import SystemClock
from mm2.config import config_loader
from mm2.config.copy_engine_config import EngineSettings
from mm2.config.mm2_settings import Mm2Settings
from mm2.copier import shared_copy_engine
from mm2.copier.copy_engine import EngineState
from mm2.copier.shared_copy_engine import DataPlaneRegistry

FILE = """
clusters:
  east: {bootstrap.servers: "e:1"}
  west: {bootstrap.servers: "w:1"}
flows:
  - {from: east, to: west, tasks.max: 3}
  - {from: west, to: east, tasks.max: 2}
spark: {master: "MASTER", allow.insecure.spark: true CONF}
"""


def read(master: str, conf: str = "") -> Mm2Settings:
    text = FILE.replace("MASTER", master).replace("CONF", conf)
    return config_loader.parse_clusters_yaml(
        text, file="clusters.yaml", folder=pathlib.Path("/"), environment={}
    )


def test_as_many_copies_as_all_flows_have_tasks():
    assert shared_copy_engine.compute_max_copy_processes(read("local[4,1]")) == 5


@pytest.mark.parametrize(
    ("master", "cores"), [("local[4,1]", None), ("yarn", None), ("spark://m:7077", "5")]
)
def test_on_a_standalone_cluster_no_more_cores_are_taken_than_there_are_tasks(master, cores):
    assert (
        shared_copy_engine.choose_engine_settings(read(master)).conf.get("spark.cores.max") == cores
    )


def test_who_says_how_many_cores_gets_them():
    chosen = shared_copy_engine.choose_engine_settings(
        read("spark://m:7077", ", conf: {spark.cores.max: 9}")
    )
    assert chosen.conf["spark.cores.max"] == "9"


CLOCK = SystemClock()
INLINE = EngineSettings(engine="inline")
OTHER = EngineSettings(engine="inline", conf={"spark.x": "hidden"})


@pytest.fixture
def planes():
    made = DataPlaneRegistry(shared_copy_engine.create_engine_and_server)
    yield made
    made.close(2.0)


def test_the_first_opens_it_and_all_share_it(planes):
    one, two = planes.acquire_data_plane(INLINE, CLOCK), planes.acquire_data_plane(None, CLOCK)
    assert one.engine is two.engine
    assert one.server is two.server
    assert one.engine.state is EngineState.READY
    assert two.settings == INLINE
    assert one.server.open_channel("a copy").token


def test_it_is_kept_while_nobody_has_it(planes):
    one = planes.acquire_data_plane(INLINE, CLOCK)
    one.release_reference()
    assert planes.acquire_data_plane(INLINE, CLOCK).engine is one.engine
    assert not one.failure


def test_other_settings_are_refused_while_somebody_has_it(planes):
    one = planes.acquire_data_plane(INLINE, CLOCK)
    with pytest.raises(ConfigError) as raised:
        planes.acquire_data_plane(OTHER, CLOCK)
    assert "mm2.spark.conf.spark.x" in str(raised.value)
    assert "hidden" not in str(raised.value)
    one.release_reference()
    another = planes.acquire_data_plane(OTHER, CLOCK)
    assert another.engine is not one.engine
    assert one.failure


def test_who_releases_twice_releases_once(planes):
    one, _two = planes.acquire_data_plane(INLINE, CLOCK), planes.acquire_data_plane(INLINE, CLOCK)
    one.release_reference()
    one.release_reference()
    with pytest.raises(ConfigError):
        planes.acquire_data_plane(OTHER, CLOCK)


def test_one_that_failed_makes_room_once_all_have_let_go(planes):
    one = planes.acquire_data_plane(INLINE, CLOCK)
    one.engine.stop(1.0)
    assert "engine failed" in one.failure
    with pytest.raises(FatalError, match="engine failed"):
        planes.acquire_data_plane(INLINE, CLOCK)
    one.release_reference()
    assert not planes.acquire_data_plane(INLINE, CLOCK).failure


def test_a_server_that_is_closed_counts_as_failed(planes):
    one = planes.acquire_data_plane(INLINE, CLOCK)
    one.server.close()
    assert "control server" in one.failure
    one.release_reference()
    assert not planes.acquire_data_plane(INLINE, CLOCK).failure


def test_closing_ends_engine_and_server(planes):
    one = planes.acquire_data_plane(INLINE, CLOCK)
    planes.close(1.0)
    assert one.engine.state is EngineState.STOPPED
    with pytest.raises(FatalError):
        one.server.open_channel("a copy")
    one.release_reference()
    assert not planes.acquire_data_plane(INLINE, CLOCK).failure


def test_many_at_once_have_the_same(planes):
    with futures.ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(planes.acquire_data_plane, INLINE, CLOCK) for _ in range(8)]
        found = [each.result(5.0) for each in asked]
    assert len({id(each.engine) for each in found}) == 1


def test_copies_of_other_machines_come_by_tls():
    settings = EngineSettings(master="spark://x:1", control_host="localhost")
    server = shared_copy_engine.listen_for_copy_processes(settings, now=CLOCK)
    try:
        assert str(server.address).startswith("tls:")
    finally:
        server.close()
