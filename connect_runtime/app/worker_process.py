"""A worker with a REST server of its own: a process of `connect-distributed`, or -standalone."""

from __future__ import annotations

import contextlib
import logging

from connect_runtime.adapters.http import metrics_exporter
from connect_runtime.adapters.http import peers as http_peers
from connect_runtime.app import worker_core
from connect_runtime.rest import app as rest_app
from connect_runtime.rest import server
from connect_runtime.runtime import worker_metrics
from connect_runtime.system import threads

_LOG = logging.getLogger(__name__)


class WorkerProcess:
    """`start`, then `stop`, by one thread; `wait` and `failure` by any."""

    def __init__(self, make_kind: worker_core.MakeKind) -> None:
        """Raises `FatalError` on settings that the client library refuses."""
        self.core = worker_core.WorkerCore(make_kind)
        settings = self.core.kind.settings
        self._rest = server.RestServer(
            settings.rest,
            main_https=settings.https,
            admin_https=settings.admin_https,
            on_unasked_end=self._thread_ended,
        )
        self._exporter: metrics_exporter.MetricsExporter | None = None

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
                worker_core.Home(
                    worker_id=self._rest.worker_id,
                    url=self._rest.advertised_url,
                    peers=self._peers() if kind.among_peers else None,
                )
            )
            assert self.core.metrics is not None
            self._serve_metrics(self.core.metrics)
            self._rest.attach(rest_app.build(parts, kind.settings.rest))
            self.core.begin()
        except BaseException:
            self.stop()
            raise

    def wait(self, timeout_s: float) -> bool:
        """Has it ended by itself? `failure` then says why."""
        return self.core.wait(timeout_s)

    def stop(self, rest_graceful_s: int = server.GRACEFUL_S) -> None:
        """Take no more requests, stop all work, leave the group, let go. Again: nothing happens."""
        with contextlib.ExitStack() as last_first:  # each whatever comes of those before
            if self._exporter is not None:
                last_first.callback(self._exporter.stop)
            last_first.callback(self.core.stop)
            last_first.callback(self._rest.stop, rest_graceful_s)

    def _serve_metrics(self, measured: worker_metrics.WorkerMetrics) -> None:
        listener = self.core.kind.config.metrics.listener
        if listener is not None:
            self._exporter = metrics_exporter.MetricsExporter(
                measured, host=listener.host, port=listener.port
            )
            self._exporter.start()
            _LOG.info("metrics for Prometheus are at %s", self._exporter.url)

    def _peers(self) -> http_peers.HttpPeers:
        https = self.core.kind.settings.https
        return http_peers.HttpPeers(tls=None if https is None else https.client)

    def _thread_ended(self, ended: threads.UnaskedEnd) -> None:
        self.core.give_up(f"thread {ended.name} ended: {ended.error!r}")
