"""Runs one worker with REST and metrics servers of its own."""

from __future__ import annotations

import contextlib
import logging

from connect_runtime.app.worker_assembly import BuildWorkerMode, WorkerAddress, WorkerAssembly
from connect_runtime.metrics_server.exporter import MetricsExporter
from connect_runtime.rest import rest_app, rest_server
from connect_runtime.rest.rest_client import RestClient
from connect_runtime.rest.rest_server import RestServer
from connect_runtime.system.threads import ThreadDied
from connect_runtime.worker.worker_metrics import WorkerMetrics

_LOG = logging.getLogger(__name__)


class WorkerProcess:
    """`start`, then `stop`, by one thread; `wait` and `failure` by any."""

    def __init__(self, make_kind: BuildWorkerMode) -> None:
        """Raises `FatalError` on settings that the client library refuses."""
        self.core = WorkerAssembly(make_kind)
        settings = self.core.kind.settings
        self._rest = RestServer(
            settings.rest,
            main_https=settings.https,
            admin_https=settings.admin_https,
            on_unasked_end=self._thread_ended,
        )
        self._exporter: MetricsExporter | None = None

    @property
    def url(self) -> str:
        """Where the REST API is, once started."""
        return self._rest.advertised_url

    @property
    def failure(self) -> str | None:
        """Why it ended by itself."""
        return self.core.failure

    def start(self) -> None:
        """Listen, read the internal topics, look for the group. Raises `ConnectError`, and then
        nothing is left running."""
        kind = self.core.kind
        try:
            self.core.reach()
            self._rest.start()
            parts = self.core.assemble(
                WorkerAddress(
                    worker_id=self._rest.worker_id,
                    url=self._rest.advertised_url,
                    peers=self._peers() if kind.among_peers else None,
                )
            )
            assert self.core.metrics is not None
            self._serve_metrics(self.core.metrics)
            self._rest.attach(rest_app.build_applications(parts, kind.settings.rest))
            self.core.begin()
        except BaseException:
            self.stop()
            raise

    def wait(self, timeout_s: float) -> bool:
        """Has it ended by itself? `failure` then says why."""
        return self.core.wait(timeout_s)

    def stop(self, rest_graceful_s: int = rest_server.GRACEFUL_STOP_TIMEOUT_S) -> None:
        """Take no more requests, stop all work, leave the group, let go. Again: nothing happens."""
        with contextlib.ExitStack() as last_first:  # each whatever comes of those before
            if self._exporter is not None:
                last_first.callback(self._exporter.stop)
            last_first.callback(self.core.stop)
            last_first.callback(self._rest.stop, rest_graceful_s)

    def _serve_metrics(self, measured: WorkerMetrics) -> None:
        listener = self.core.kind.config.metrics.listener
        if listener is not None:
            self._exporter = MetricsExporter(measured, host=listener.host, port=listener.port)
            self._exporter.start()
            _LOG.info("metrics for Prometheus are at %s", self._exporter.url)

    def _peers(self) -> RestClient:
        https = self.core.kind.settings.https
        return RestClient(tls=None if https is None else https.client)

    def _thread_ended(self, ended: ThreadDied) -> None:
        self.core.give_up(f"thread {ended.name} ended: {ended.error!r}")
