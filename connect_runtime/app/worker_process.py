"""Runs one worker with its own REST and metrics servers."""

from __future__ import annotations

import contextlib
import logging

from connect_runtime.app.worker_assembly import BuildWorkerMode, WorkerAddress, WorkerAssembly
from connect_runtime.metrics_server.exporter import MetricsExporter
from connect_runtime.rest import rest_app, rest_server
from connect_runtime.rest.rest_client import RestClient
from connect_runtime.rest.rest_server import RestServer
from connect_runtime.system.supervised_threads import UnexpectedThreadEnd
from connect_runtime.worker.worker_metrics import WorkerMetrics

_LOG = logging.getLogger(__name__)


class WorkerProcess:
    """Runs one worker together with its REST and metrics servers. Call `start` and `stop` from one
    thread; `wait` and `failure` are thread-safe."""

    def __init__(self, build_mode: BuildWorkerMode) -> None:
        """Create the worker and its servers.

        Raises `FatalError` if the Kafka client library rejects the settings.
        """
        self.core = WorkerAssembly(build_mode)
        settings = self.core.mode.settings
        self._rest = RestServer(
            settings.rest,
            main_https=settings.https,
            admin_https=settings.admin_https,
            on_thread_death=self._on_thread_death,
        )
        self._exporter: MetricsExporter | None = None

    @property
    def url(self) -> str:
        """URL of the REST API. Valid after `start`."""
        return self._rest.advertised_url

    @property
    def failure(self) -> str | None:
        """Reason why the worker failed; None if it has not failed."""
        return self.core.failure

    def start(self) -> None:
        """Open the listeners, read the internal topics and join the group.

        Raises `ConnectError` if this fails; nothing is left running in this case.
        """
        kind = self.core.mode
        try:
            self.core.read_kafka_cluster_id()
            self._rest.start()
            parts = self.core.build_rest_dependencies(
                WorkerAddress(
                    worker_id=self._rest.worker_id,
                    url=self._rest.advertised_url,
                    peers=self._create_peer_client() if kind.has_peers else None,
                )
            )
            assert self.core.metrics is not None
            self._serve_metrics(self.core.metrics)
            self._rest.attach_applications(rest_app.build_applications(parts, kind.settings.rest))
            self.core.join_group()
        except BaseException:
            self.stop()
            raise

    def wait(self, timeout_s: float) -> bool:
        """Wait for up to `timeout_s` for the worker to fail; return True if it has failed (see
        `failure`)."""
        return self.core.wait(timeout_s)

    def stop(self, rest_graceful_s: int = rest_server.GRACEFUL_STOP_TIMEOUT_S) -> None:
        """Reject new requests, stop all connectors and tasks, leave the group and release
        resources. Idempotent."""
        with contextlib.ExitStack() as last_first:  # run each step even if an earlier one fails
            if self._exporter is not None:
                last_first.callback(self._exporter.stop)
            last_first.callback(self.core.stop)
            last_first.callback(self._rest.stop, rest_graceful_s)

    def _serve_metrics(self, measured: WorkerMetrics) -> None:
        listener = self.core.mode.config.metrics.listener
        if listener is not None:
            self._exporter = MetricsExporter(measured, host=listener.host, port=listener.port)
            self._exporter.start()
            _LOG.info("Prometheus metrics at %s", self._exporter.url)

    def _create_peer_client(self) -> RestClient:
        https = self.core.mode.settings.https
        return RestClient(tls=None if https is None else https.client)

    def _on_thread_death(self, ended: UnexpectedThreadEnd) -> None:
        self.core.report_failure(f"thread {ended.name} failed: {ended.error!r}")
