"""The data plane of a process: one copy engine and one control server, shared by all flows of the
process.

The first `acquire_data_plane` opens the data plane. Because a Spark context takes seconds to start,
the data plane stays open when no flow uses it, until `close` or the end of the process. An unused
data plane is replaced if it has failed or if other settings are requested.
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
from connect_runtime.base.clock_and_deadline import Clock
from mm2.config import copy_engine_config
from mm2.config.copy_engine_config import EngineSettings
from mm2.config.mm2_settings import Mm2Settings
from mm2.copier import control_channel_server, standby_copy_processes
from mm2.copier.control_channel_server import ControlServer
from mm2.copier.copy_engine import CopyEngine, EngineState
from mm2.copier.inline_copy_engine import InlineEngine
from mm2.copier.spark.engine import SparkEngine
from mm2.copier.spark.settings import SparkSettings
from mm2.copier.standby_copy_processes import StandbyCopyProcesses

SPARK_STANDALONE_PREFIX = "spark://"


def choose_engine_settings(settings: Mm2Settings) -> EngineSettings:
    """Build the engine settings of this process's data plane from the configuration. On a
    standalone Spark cluster, the default of `spark.cores.max` is the number of copy processes."""
    spark = settings.spark
    conf = spark.conf
    if spark.master.startswith(SPARK_STANDALONE_PREFIX):
        # A standalone cluster would give this application all cores: limit them to its tasks.
        conf = {"spark.cores.max": str(compute_max_copy_processes(settings)), **conf}
    hidden = settings.secret_environment
    return dataclasses.replace(spark, conf=conf, hidden_environment=hidden)


def compute_max_copy_processes(settings: Mm2Settings) -> int:
    """Return the maximum number of concurrent copy processes of one node: the sum of `tasks.max` of
    all flows."""
    return sum(flow.tasks_max for flow in settings.flows)


EXIT_TIMEOUT_S = 2.0
"""Time limit in seconds for closing the data plane, at process exit or before it is replaced."""
ENGINE_STOP_TIMEOUT_S = 0.7
"""Minimum part of the close timeout, in seconds, that is reserved for stopping the engine."""


@dataclass(slots=True)
class _OpenDataPlane:
    """An open data plane, shared by `user_count` users."""

    settings: EngineSettings
    engine: CopyEngine
    server: ControlServer
    clock: Clock
    standby: StandbyCopyProcesses
    user_count: int = 0

    @property
    def failure(self) -> str:
        if self.engine.state in (EngineState.FAILED, EngineState.STOPPED):
            return f"the engine failed: {self.engine.failure or 'it was stopped'}"
        return self.server.failure

    def close(self, timeout_s: float) -> None:
        until_s = self.clock.now_s() + timeout_s
        self.server.close(0.1)
        self.engine.stop(max(ENGINE_STOP_TIMEOUT_S, until_s - self.clock.now_s()))


class DataPlane:
    """A reference to the shared data plane, held by one user (for example a flow). Thread-safe.
    Call `release_reference` after all of the user's copy processes have ended."""

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
    def standby_copies(self) -> StandbyCopyProcesses:
        """Pool of standby copy processes, which run but have no task yet."""
        return self._opened.standby

    @property
    def settings(self) -> EngineSettings:
        """Engine settings of the open data plane."""
        return self._opened.settings

    @property
    def failure(self) -> str:
        """Reason why copy processes can no longer run; "" while they can."""
        return self._opened.failure

    def release_reference(self) -> None:
        """Release this user's reference to the data plane. Idempotent."""
        release, self._release = self._release, None
        if release is not None:
            release()


DataPlaneFactory = Callable[
    [EngineSettings, Clock],
    tuple[CopyEngine, ControlServer],
]


class DataPlaneRegistry:
    """Keeps at most one open data plane. Thread-safe."""

    def __init__(self, create: DataPlaneFactory) -> None:
        self._create = create
        self._lock = threading.Lock()
        self._open: _OpenDataPlane | None = None

    def acquire_data_plane(self, settings: EngineSettings | None, clock: Clock) -> DataPlane:
        """Return a reference to the open data plane, or open a new data plane. If `settings` is
        None, use the settings of the open data plane, or the defaults if none is open.

        Raises `ConfigError` if the data plane is in use with other settings, and `FatalError` if it
        has failed and is still in use, or if the control server cannot listen.
        """
        with self._lock:
            if self._open is not None:
                self._close_data_plane_if_replaceable(self._open, settings)
            if self._open is None:
                wanted = settings or EngineSettings()
                made_engine, server = self._create(wanted, clock)
                # On a Spark cluster, standby processes would occupy slots that other jobs need.
                is_local = wanted.engine != copy_engine_config.INLINE and wanted.is_local
                waiting = StandbyCopyProcesses(
                    made_engine,
                    server,
                    clock=clock,
                    max_count=standby_copy_processes.MAX_STANDBY_COPIES if is_local else 0,
                )
                self._open = _OpenDataPlane(wanted, made_engine, server, clock, waiting)
                made_engine.open()
            opened = self._open
            opened.user_count += 1
        return DataPlane(opened, release=lambda: self._handle_reference_released(opened))

    def close(self, timeout_s: float) -> None:
        """Stop the engine and the control server. Running copy processes are killed."""
        with self._lock:
            opened, self._open = self._open, None
            if opened is not None:
                opened.close(timeout_s)

    def _close_data_plane_if_replaceable(
        self, opened: _OpenDataPlane, settings: EngineSettings | None
    ) -> None:
        differs = settings is not None and settings != opened.settings
        failure = opened.failure
        if not differs and not failure:
            return
        if opened.user_count == 0:
            self._open = None
            opened.close(EXIT_TIMEOUT_S)
        elif settings is not None and differs:
            keys = ", ".join(copy_engine_config.diff_engine_settings(opened.settings, settings))
            raise ConfigError(
                f"this process already runs copy processes with {opened.settings.display_name}, "
                f"but {settings.display_name} was requested (different keys: {keys}); a process "
                "has only one data plane, so configure the same settings for all connectors"
            )
        else:
            raise FatalError(failure)

    def _handle_reference_released(self, opened: _OpenDataPlane) -> None:
        with self._lock:
            opened.user_count -= 1


def create_engine_and_server(
    settings: EngineSettings, clock: Clock
) -> tuple[CopyEngine, ControlServer]:
    """Create an engine that is not yet started, and a listening control server. Raises `FatalError`
    if the server cannot listen on its address."""
    made: CopyEngine
    if settings.engine == copy_engine_config.INLINE:
        made = InlineEngine(clock=clock)
    else:
        made = SparkEngine(_build_spark_settings(settings), clock=clock)
    return made, listen_for_copy_processes(settings, now=clock)


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


def listen_for_copy_processes(settings: EngineSettings, *, now: Clock) -> ControlServer:
    """Listen for copy processes on a Unix socket (same host) or with TLS (across hosts).

    Raises `FatalError` if the address cannot be bound.
    """
    if settings.is_local:
        return control_channel_server.listen_unix(clock=now)
    host = settings.control_host or socket.gethostname()
    tls, fingerprint = control_channel_server.create_tls_context(host=host, wall_ms=now.wall_ms())
    return control_channel_server.listen_tls(
        clock=now,
        tls=tls,
        fingerprint=fingerprint,
        bind=("", settings.control_port),
        advertised_host=host,
    )


_PROCESS_DATA_PLANE = DataPlaneRegistry(create_engine_and_server)
atexit.register(_PROCESS_DATA_PLANE.close, EXIT_TIMEOUT_S)

acquire = _PROCESS_DATA_PLANE.acquire_data_plane
close = _PROCESS_DATA_PLANE.close
