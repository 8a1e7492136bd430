"""The data plane of a process: one engine and one control server, shared by all its flows.

The first `acquire` opens it. It stays open without holders, since a Spark context takes seconds
to start, until `close` or the end of the process. If nobody holds it, a failed data plane, or one
with other settings than requested, is replaced.
"""

from __future__ import annotations

import atexit
import dataclasses
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.api.errors import ConfigError, FatalError
from connect_runtime.base.timing import Clock
from mm2.config import engine_config
from mm2.config.engine_config import EngineSettings
from mm2.config.mm2_settings import Mm2Settings
from mm2.copier import control_server, standby_copies
from mm2.copier.control_server import ControlServer
from mm2.copier.engine import CopyEngine, EngineState
from mm2.copier.inline_engine import InlineEngine
from mm2.copier.spark.engine import SparkEngine
from mm2.copier.spark.settings import SparkSettings
from mm2.copier.standby_copies import StandbyCopies

SPARK_STANDALONE_PREFIX = "spark://"


def choose_engine_settings(settings: Mm2Settings) -> EngineSettings:
    """What this process's data plane is opened with."""
    spark = settings.spark
    conf = spark.conf
    if spark.master.startswith(SPARK_STANDALONE_PREFIX):
        # On a standalone cluster no process takes more cores than it has tasks.
        conf = {"spark.cores.max": str(count_copies(settings)), **conf}
    hidden = settings.secret_environment
    return dataclasses.replace(spark, conf=conf, hidden_environment=hidden)


def count_copies(settings: Mm2Settings) -> int:
    """How many copies a node alone runs at the same time, at most."""
    return sum(flow.tasks_max for flow in settings.flows)


EXIT_TIMEOUT_S = 2.0
"""What is left at the process's end, or makes room for another, ends within so much."""
ENGINE_STOP_TIMEOUT_S = 0.7
"""Of the time to close the engine gets at least so much."""


@dataclass(slots=True)
class _OpenDataPlane:
    """What there is, and how many have it."""

    settings: EngineSettings
    engine: CopyEngine
    server: ControlServer
    clock: Clock
    spares: StandbyCopies
    held: int = 0

    @property
    def failure(self) -> str:
        if self.engine.state in (EngineState.FAILED, EngineState.STOPPED):
            return f"the engine has failed: {self.engine.failure or 'it was stopped'}"
        return self.server.failure

    def close(self, timeout_s: float) -> None:
        until_s = self.clock.now_s() + timeout_s
        self.server.close(0.1)
        self.engine.stop(max(ENGINE_STOP_TIMEOUT_S, until_s - self.clock.now_s()))


class DataPlane:
    """One holder's; safe from any thread. `release` when nothing of its owner runs any more."""

    def __init__(self, opened: _OpenDataPlane, *, release: Callable[[], None]) -> None:
        self._opened = opened
        self._release: Callable[[], None] | None = release

    @property
    def engine(self) -> CopyEngine:
        return self._opened.engine

    @property
    def server(self) -> ControlServer:
        return self._opened.server

    @property
    def spares(self) -> StandbyCopies:
        """Copies that have begun, and wait for something to copy."""
        return self._opened.spares

    @property
    def settings(self) -> EngineSettings:
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


DataPlaneFactory = Callable[
    [EngineSettings, Clock],
    tuple[CopyEngine, ControlServer],
]


class DataPlaneRegistry:
    """At most one is open. Safe from any thread."""

    def __init__(self, make: DataPlaneFactory) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._open: _OpenDataPlane | None = None

    def acquire(self, settings: EngineSettings | None, clock: Clock) -> DataPlane:
        """`settings` None: whatever is in force, and the defaults where nothing is.

        Raises `ConfigError` where somebody has it with other settings, and `FatalError` where it
        has failed, and others have not let go of it yet, or where the control server cannot listen.
        """
        with self._lock:
            if self._open is not None:
                self._make_room(self._open, settings)
            if self._open is None:
                wanted = settings or EngineSettings()
                made_engine, server = self._make(wanted, clock)
                # Processes of a cluster would hold slots that others need.
                is_local = wanted.engine != engine_config.INLINE and wanted.on_this_machine
                waiting = StandbyCopies(
                    made_engine,
                    server,
                    clock=clock,
                    most=standby_copies.MAX_STANDBY_COPIES if is_local else 0,
                )
                self._open = _OpenDataPlane(wanted, made_engine, server, clock, waiting)
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

    def _make_room(self, opened: _OpenDataPlane, settings: EngineSettings | None) -> None:
        other = settings is not None and settings != opened.settings
        failure = opened.failure
        if not other and not failure:
            return
        if opened.held == 0:
            self._open = None
            opened.close(EXIT_TIMEOUT_S)
        elif settings is not None and other:
            keys = ", ".join(engine_config.diff_engine_settings(opened.settings, settings))
            raise ConfigError(
                f"this process copies with {opened.settings.name}, and {settings.name} was asked "
                f"for (they differ in {keys}): one process has one data plane, give all connectors "
                "the same settings"
            )
        else:
            raise FatalError(failure)

    def _released(self, opened: _OpenDataPlane) -> None:
        with self._lock:
            opened.held -= 1


def create_engine_and_server(
    settings: EngineSettings, clock: Clock
) -> tuple[CopyEngine, ControlServer]:
    """An engine that is not open yet, and a server that listens. Raises as `listen_for_copies`."""
    made: CopyEngine
    if settings.engine == engine_config.INLINE:
        made = InlineEngine(now=clock)
    else:
        made = SparkEngine(_build_spark_settings(settings), now=clock)
    return made, listen_for_copies(settings, now=clock)


def _build_spark_settings(settings: EngineSettings) -> SparkSettings:
    return SparkSettings(
        master=settings.master,
        app_name=settings.app_name,
        conf=settings.conf,
        ui=settings.ui,
        allow_insecure=settings.allow_insecure_spark,
        hidden_environment=settings.hidden_environment,
        python=settings.python or sys.executable,
    )


def listen_for_copies(settings: EngineSettings, *, now: Clock) -> ControlServer:
    """Where copies reach this process: a Unix socket on one host, TLS with a certificate of this
    run beyond. Raises `FatalError` when the address cannot be bound."""
    if settings.on_this_machine:
        return control_server.listen_unix(now=now)
    host = settings.control_host or socket.gethostname()
    tls, fingerprint = control_server.create_tls_context(host=host, wall_ms=now.wall_ms())
    return control_server.listen_tls(
        now=now,
        tls=tls,
        fingerprint=fingerprint,
        bind=("", settings.control_port),
        advertised_host=host,
    )


_PROCESS_DATA_PLANE = DataPlaneRegistry(create_engine_and_server)
atexit.register(_PROCESS_DATA_PLANE.close, EXIT_TIMEOUT_S)

acquire = _PROCESS_DATA_PLANE.acquire
close = _PROCESS_DATA_PLANE.close
