"""Looks for slots: a local Spark is counted, a cluster's is begun as `mm2 run` would begin it."""

from __future__ import annotations

import socket
from collections.abc import Callable

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.system import java, polling
from mm2.app import engine_choice
from mm2.app.settings import settings as app_settings
from mm2.core.configs import engine_settings
from mm2.core.preflight import slots
from mm2.pipeline import data_plane, engine
from mm2.pipeline.spark import slots as spark_slots

START_S = 90.0
"""So long Spark may take to start, or to say that no master lets it in."""
_EXECUTORS_S = 30.0
"""So long executors may take to come."""
_CLOSE_S = 5.0
LONGEST_S = START_S + _EXECUTORS_S + _CLOSE_S
"""So long a look takes at most, but for the answer at the port."""
_ENDED = (engine.EngineState.FAILED, engine.EngineState.STOPPED)


def look(
    settings: app_settings.Settings, *, clock: base_clock.Clock, timeout_s: float
) -> slots.Seen:
    """`timeout_s`: how long a master may take to answer at its port."""
    chosen = engine_choice.of(settings)
    wanted = engine_choice.copies(settings)

    def seen(count: int | None = None, *, failure: str = "", unreachable: str = "") -> slots.Seen:
        return slots.Seen(
            master=chosen.name,
            failure=failure,
            unreachable=unreachable,
            slots=count,
            wanted=wanted,
        )

    if chosen.engine == engine_settings.INLINE:
        return seen()
    try:
        java.find()
    except java.JavaMissingError as error:
        return seen(failure=str(error))
    if chosen.on_this_machine:
        return seen(spark_slots.of_local_master(chosen.master))
    if chosen.master.startswith(engine_choice.STANDALONE):
        address, refused = _try_masters(chosen.master, timeout_s)
        if refused:
            return seen(failure=refused, unreachable=address)
    return _begun(chosen, wanted, seen, clock=clock)


def _try_masters(master: str, timeout_s: float) -> tuple[str, str]:
    """The first of `spark://a:1,b:1` that takes connections, or the last that did not, and why."""
    address = refused = ""
    for address in master.removeprefix(engine_choice.STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout_s).close()
        except (OSError, ValueError) as error:
            refused = str(error)
        else:
            return address, ""
    return address, refused


def _begun(
    chosen: engine_settings.EngineSettings,
    wanted: int,
    seen: Callable[..., slots.Seen],
    *,
    clock: base_clock.Clock,
) -> slots.Seen:
    try:
        plane = data_plane.acquire(chosen, clock)
    except errors.ConnectError as error:
        return seen(failure=str(error))
    spark = plane.engine
    try:
        settled = (engine.EngineState.READY, *_ENDED)
        polling.until(lambda: spark.state in settled, timeout_s=START_S)
        if spark.state is not engine.EngineState.READY:
            return seen(failure=spark.failure or f"Spark has not started within {START_S:g} s")
        polling.until(
            lambda: spark.slots().total >= wanted or spark.state in _ENDED,
            timeout_s=_EXECUTORS_S,
        )
        return seen(spark.slots().total, failure=spark.failure or "")
    finally:
        plane.release()
        data_plane.close(_CLOSE_S)
