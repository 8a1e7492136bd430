"""One data plane for a process: who opens it, who shares it, when another takes its place."""

from __future__ import annotations

from concurrent import futures

import pytest

from connect_runtime.api import errors
from connect_runtime.system import clock
from mm2.core.configs import engine_settings
from mm2.pipeline import data_plane, engine

CLOCK = clock.SystemClock()
INLINE = engine_settings.EngineSettings(engine="inline")
OTHER = engine_settings.EngineSettings(engine="inline", conf={"spark.x": "hidden"})


@pytest.fixture
def planes():
    made = data_plane.DataPlanes(data_plane.make)
    yield made
    made.close(2.0)


def test_the_first_opens_it_and_all_share_it(planes):
    one, two = planes.acquire(INLINE, CLOCK), planes.acquire(None, CLOCK)
    assert one.engine is two.engine
    assert one.server is two.server
    assert one.engine.state is engine.EngineState.READY
    assert two.settings == INLINE
    assert one.server.open("a copy").token


def test_it_is_kept_while_nobody_has_it(planes):
    one = planes.acquire(INLINE, CLOCK)
    one.release()
    assert planes.acquire(INLINE, CLOCK).engine is one.engine
    assert not one.failure


def test_other_settings_are_refused_while_somebody_has_it(planes):
    one = planes.acquire(INLINE, CLOCK)
    with pytest.raises(errors.ConfigError) as raised:
        planes.acquire(OTHER, CLOCK)
    assert "mm2.spark.conf.spark.x" in str(raised.value)
    assert "hidden" not in str(raised.value)
    one.release()
    another = planes.acquire(OTHER, CLOCK)
    assert another.engine is not one.engine
    assert one.failure


def test_who_releases_twice_releases_once(planes):
    one, _two = planes.acquire(INLINE, CLOCK), planes.acquire(INLINE, CLOCK)
    one.release()
    one.release()
    with pytest.raises(errors.ConfigError):
        planes.acquire(OTHER, CLOCK)


def test_one_that_failed_makes_room_once_all_have_let_go(planes):
    one = planes.acquire(INLINE, CLOCK)
    one.engine.stop(1.0)
    assert "engine has failed" in one.failure
    with pytest.raises(errors.FatalError, match="engine has failed"):
        planes.acquire(INLINE, CLOCK)
    one.release()
    assert not planes.acquire(INLINE, CLOCK).failure


def test_a_server_that_is_closed_counts_as_failed(planes):
    one = planes.acquire(INLINE, CLOCK)
    one.server.close()
    assert "control server" in one.failure
    one.release()
    assert not planes.acquire(INLINE, CLOCK).failure


def test_closing_ends_engine_and_server(planes):
    one = planes.acquire(INLINE, CLOCK)
    planes.close(1.0)
    assert one.engine.state is engine.EngineState.STOPPED
    with pytest.raises(errors.FatalError):
        one.server.open("a copy")
    one.release()
    assert not planes.acquire(INLINE, CLOCK).failure


def test_many_at_once_have_the_same(planes):
    with futures.ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(planes.acquire, INLINE, CLOCK) for _ in range(8)]
        found = [each.result(5.0) for each in asked]
    assert len({id(each.engine) for each in found}) == 1


def test_copies_of_other_machines_come_by_tls():
    settings = engine_settings.EngineSettings(master="spark://x:1", control_host="localhost")
    server = data_plane.listen(settings, now=CLOCK)
    try:
        assert str(server.address).startswith("tls:")
    finally:
        server.close()
