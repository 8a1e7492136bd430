"""The data plane of a process: one engine and one control server, for all that run in it.

Who needs it acquires it; the first opens it. It stays open when nobody has it, since a Spark
context takes seconds to start, until `close` or the process's end. With nobody there, one that has
failed, or another than is asked for, makes room for a new one.
"""

from __future__ import annotations

import atexit
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.api import errors
from connect_runtime.base import clock as base_clock
from mm2.core.configs import engine_settings
from mm2.pipeline import channel_certificate, control_server, engine, inline, spares
from mm2.pipeline.spark import engine as spark_engine
from mm2.pipeline.spark import settings as spark_settings

EXIT_S = 2.0
"""What is left at the process's end, or makes room for another, ends within so much."""
ENGINE_STOP_S = 0.7
"""Of the time to close the engine gets at least so much."""


@dataclass(slots=True)
class _Open:
    """What there is, and how many have it."""

    settings: engine_settings.EngineSettings
    engine: engine.CopyEngine
    server: control_server.ControlServer
    clock: base_clock.Clock
    spares: spares.Spares
    held: int = 0

    @property
    def failure(self) -> str:
        if self.engine.state in (engine.EngineState.FAILED, engine.EngineState.STOPPED):
            return f"the engine has failed: {self.engine.failure or 'it was stopped'}"
        return self.server.failure

    def close(self, timeout_s: float) -> None:
        until_s = self.clock.now_s() + timeout_s
        self.server.close(0.1)
        self.engine.stop(max(ENGINE_STOP_S, until_s - self.clock.now_s()))


class DataPlane:
    """One holder's; safe from any thread. `release` when nothing of its owner runs any more."""

    def __init__(self, opened: _Open, *, release: Callable[[], None]) -> None:
        self._opened = opened
        self._release: Callable[[], None] | None = release

    @property
    def engine(self) -> engine.CopyEngine:
        return self._opened.engine

    @property
    def server(self) -> control_server.ControlServer:
        return self._opened.server

    @property
    def spares(self) -> spares.Spares:
        """Copies that have begun, and wait for something to copy."""
        return self._opened.spares

    @property
    def settings(self) -> engine_settings.EngineSettings:
        """What is in force."""
        return self._opened.settings

    @property
    def failure(self) -> str:
        """Why no copy runs any more, "" while they do."""
        return self._opened.failure

    def release(self) -> None:
        """May be called twice."""
        release, self._release = self._release, None
        if release is not None:
            release()


Make = Callable[
    [engine_settings.EngineSettings, base_clock.Clock],
    tuple[engine.CopyEngine, control_server.ControlServer],
]


class DataPlanes:
    """At most one is open. Safe from any thread."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._open: _Open | None = None

    def acquire(
        self, settings: engine_settings.EngineSettings | None, clock: base_clock.Clock
    ) -> DataPlane:
        """`settings` None: whatever is in force, and the defaults where nothing is.

        Raises `ConfigError` where somebody has it with other settings, and `FatalError` where it
        has failed, and others have not let go of it yet, or where the control server cannot listen.
        """
        with self._lock:
            if self._open is not None:
                self._make_room(self._open, settings)
            if self._open is None:
                wanted = settings or engine_settings.EngineSettings()
                made_engine, server = self._make(wanted, clock)
                # Processes of a cluster would hold slots that others need.
                is_local = wanted.engine != engine_settings.INLINE and wanted.on_this_machine
                waiting = spares.Spares(
                    made_engine, server, clock=clock, most=spares.MOST if is_local else 0
                )
                self._open = _Open(wanted, made_engine, server, clock, waiting)
                made_engine.open()
            opened = self._open
            opened.held += 1
        return DataPlane(opened, release=lambda: self._released(opened))

    def close(self, timeout_s: float) -> None:
        """End the engine and the server: copies that still run are killed."""
        with self._lock:
            opened, self._open = self._open, None
            if opened is not None:
                opened.close(timeout_s)

    def _make_room(self, opened: _Open, settings: engine_settings.EngineSettings | None) -> None:
        other = settings is not None and settings != opened.settings
        failure = opened.failure
        if not other and not failure:
            return
        if opened.held == 0:
            self._open = None
            opened.close(EXIT_S)
        elif settings is not None and other:
            keys = ", ".join(engine_settings.differences(opened.settings, settings))
            raise errors.ConfigError(
                f"this process copies with {opened.settings.name}, and {settings.name} was asked "
                f"for (they differ in {keys}): one process has one data plane, give all connectors "
                "the same settings"
            )
        else:
            raise errors.FatalError(failure)

    def _released(self, opened: _Open) -> None:
        with self._lock:
            opened.held -= 1


def make(
    settings: engine_settings.EngineSettings, clock: base_clock.Clock
) -> tuple[engine.CopyEngine, control_server.ControlServer]:
    """An engine that is not open yet, and a server that listens. Raises as `listen`."""
    made: engine.CopyEngine
    if settings.engine == engine_settings.INLINE:
        made = inline.InlineEngine(now=clock)
    else:
        made = spark_engine.SparkEngine(_spark(settings), now=clock)
    return made, listen(settings, now=clock)


def _spark(settings: engine_settings.EngineSettings) -> spark_settings.SparkSettings:
    return spark_settings.SparkSettings(
        master=settings.master,
        app_name=settings.app_name,
        conf=settings.conf,
        ui=settings.ui,
        allow_insecure=settings.allow_insecure_spark,
        hidden_environment=settings.hidden_environment,
        python=settings.python or sys.executable,
    )


def listen(
    settings: engine_settings.EngineSettings, *, now: base_clock.Clock
) -> control_server.ControlServer:
    """Where copies reach this process: a Unix socket on one host, TLS with a certificate of this
    run beyond. Raises `FatalError` when the address cannot be bound."""
    if settings.on_this_machine:
        return control_server.listen_unix(now=now)
    host = settings.control_host or socket.gethostname()
    tls, fingerprint = channel_certificate.server_context(host=host, wall_ms=now.wall_ms())
    return control_server.listen_tls(
        now=now,
        tls=tls,
        fingerprint=fingerprint,
        bind=("", settings.control_port),
        advertised_host=host,
    )


_OF_THIS_PROCESS = DataPlanes(make)
atexit.register(_OF_THIS_PROCESS.close, EXIT_S)

acquire = _OF_THIS_PROCESS.acquire
close = _OF_THIS_PROCESS.close
