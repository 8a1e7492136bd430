"""Entry point of a copy process: connect to the driver, receive the configuration, copy, exit.

The copy process runs in the Python process of a Spark task, or in a thread of the driver
(`inline`). This module imports only packages that are available on Spark executors. Configuration
and credentials arrive only over the control channel.
"""

from __future__ import annotations

import dataclasses
import logging
from random import Random
from typing import Any

from connect_runtime.api import config_types
from connect_runtime.network.cluster_connections import ClusterConnections
from connect_runtime.network.tcp_and_tls_transport import BufferPool, Poller
from connect_runtime.system.system_clock import SystemClock
from mm2.copier import client_properties, control_channel_messages
from mm2.copier.control_channel_client import ControlClient
from mm2.copier.control_channel_messages import ClusterAccess, CopyConfiguration, CopyEndpoints
from mm2.copier.copy_loop import CopyLoop
from mm2.copier.driver_client import DriverClient
from mm2.replication import record_transforms
from mm2.replication.record_transforms import TransformChain, TransformChainError

CONNECT_TIMEOUT_S = 15.0
CONFIGURE_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 2.5
POLL_INTERVAL_S = 0.25
BUFFER_POOL_BYTES = 64 * 1024 * 1024

_log = logging.getLogger(__name__)


class CopyProcess:
    """Runs the control channel and the copy loop of a copy process. The process ends when the
    driver stops it, disconnects or stops responding."""

    def __init__(self, address: str, token: bytes) -> None:
        self._clock = SystemClock()
        self._poller = Poller()
        self._channel = ControlClient(
            address,
            token,
            self._poller,
            clock=self._clock,
            on_message=self._on_message,
            on_closed=self._on_channel_closed,
        )
        self._driver = DriverClient(self._channel)
        self._random = Random()  # noqa: S311 - jitter, not secrets
        self._endpoints: CopyEndpoints | None = None
        self._settings: CopyConfiguration | None = None
        self._loop: CopyLoop | None = None
        self._chain: TransformChain | None = None
        self._paused = False
        self._clusters: list[ClusterConnections] = []
        self._last_message_s = 0.0
        self._end_reason = ""
        self._stop_at_s = float("inf")

    def run(self) -> None:
        """Run until the driver stops the copy process or the connection is lost. Raises
        `DriverConnectError`."""
        self._channel.connect(CONNECT_TIMEOUT_S)
        self._last_message_s = self._clock.now_s()
        try:
            self._wait_for_configuration()
            if self._settings is not None:
                self._run_copy(self._settings)
        finally:
            self._channel.close()
            if self._chain is not None:
                self._chain.close()
            for each in self._clusters:
                each.close()
            self._poller.close()

    def _wait_for_configuration(self) -> None:
        """Wait until the driver sends the configuration. Until then, the driver sends
        heartbeats."""
        while self._settings is None and not self._end_reason:
            if self._clock.now_s() > self._last_message_s + CONFIGURE_TIMEOUT_S:
                self._end_reason = "the driver sent no configuration"
            now_s = self._clock.now_s()
            due_s = min((each.tick(now_s) for each in self._clusters), default=POLL_INTERVAL_S)
            self._poller.poll(min(due_s, POLL_INTERVAL_S))
            self._connect_before_configuration()

    def _connect_before_configuration(self) -> None:
        """Connect to both clusters as soon as the driver has sent their addresses (`endpoints`)."""
        if self._endpoints is not None and not self._clusters:
            self._clusters = self._connect_clusters(self._endpoints.source, self._endpoints.target)
            self._clusters[0].set_metadata_topics(self._endpoints.topics)
            self._clusters[1].set_metadata_topics(self._endpoints.remote_topics)

    def _run_copy(self, settings: CopyConfiguration) -> None:
        try:
            self._chain = record_transforms.create_chain(
                settings.transforms, load=config_types.load_class
            )
        except TransformChainError as error:  # for example, a class is not installed on this node
            self._report_copy_end(str(error), fatal=str(error))
            return
        loop = self._build_loop(settings)
        self._loop = loop
        self._apply_pause()
        reason = ""
        while not reason:
            loop.run_once()
            reason = self._find_end_reason(loop)
        _log.info(
            ("%s task %d: copy process is shutting down: %s"), settings.flow, settings.task, reason
        )
        if not self._end_reason:
            loop.send_progress_reports()
            self._report_copy_end(reason, fatal=loop.fatal_error)

    def _report_copy_end(self, reason: str, *, fatal: str) -> None:
        self._channel.send({"type": "ended", "reason": reason, "fatal": fatal})
        self._channel.flush_send_queue(1.0)

    def _build_loop(self, settings: CopyConfiguration) -> CopyLoop:
        clusters = settings.source, settings.target
        endpoints = self._endpoints
        if (
            not self._clusters
            or endpoints is None
            or (endpoints.source, endpoints.target) != clusters
        ):
            for each in self._clusters:
                each.close()
            self._clusters = self._connect_clusters(*clusters)
        return CopyLoop(
            settings,
            source=self._clusters[0],
            target=self._clusters[1],
            driver=self._driver,
            poller=self._poller,
            clock=self._clock,
            random=self._random,
            chain=self._chain,
        )

    def _connect_clusters(self, *sides: ClusterAccess) -> list[ClusterConnections]:
        pool = BufferPool(BUFFER_POOL_BYTES)
        return [
            ClusterConnections(
                client_properties.parse_connection_settings(access),
                poller=self._poller,
                clock=self._clock,
                random=self._random,
                pool=pool,
            )
            for access in sides
        ]

    def _find_end_reason(self, loop: CopyLoop) -> str:
        """Return the reason why the copy process must end now; "" if it can continue."""
        now_s = self._clock.now_s()
        if self._end_reason:
            return self._end_reason
        if now_s - self._last_message_s > control_channel_messages.PEER_TIMEOUT_S:
            self._end_reason = (
                f"no message from the driver for {control_channel_messages.PEER_TIMEOUT_S:.0f} s"
            )
            return self._end_reason
        if loop.fatal_error:
            return loop.fatal_error
        if self._stop_at_s < float("inf") and (loop.is_closed or now_s >= self._stop_at_s):
            return "stopped" if loop.is_closed else "stopped before all progress was recorded"
        return ""

    def _on_channel_closed(self, reason: str) -> None:
        self._end_reason = self._end_reason or f"lost the connection to the driver: {reason}"

    def _on_message(self, message: dict[str, Any]) -> None:
        self._last_message_s = self._clock.now_s()
        if self._driver.handle_message(message):
            return
        match message["type"]:
            case "endpoints":
                self._endpoints = control_channel_messages.decode_endpoints(message)
            case "configure":
                self._settings = control_channel_messages.decode_copy_configuration(message)
            case "heartbeat":
                pass
            case "pause" | "resume" as kind:
                self._paused = kind == "pause"
                self._apply_pause()
            case "pause_topics":
                self._update_settings(paused_topics=frozenset(message["topics"]))
                self._apply_pause()
            case "throttle":
                self._apply_throttle(message)
            case "stop":
                self._begin_stop(message.get("deadline_s", CLOSE_TIMEOUT_S))

    def _apply_throttle(self, message: dict[str, Any]) -> None:
        self._update_settings(
            throttle_bytes_s=message["bytes_per_s"], topic_throttles=message["topics"]
        )
        if self._loop is not None:
            self._loop.set_throttles(message["bytes_per_s"], message["topics"])

    def _update_settings(self, **settings: Any) -> None:
        """Replace fields of the received configuration, so that changes which arrive before the
        copy loop is created take effect."""
        if self._settings is not None:
            self._settings = dataclasses.replace(self._settings, **settings)

    def _apply_pause(self) -> None:
        if self._loop is not None and self._settings is not None:
            self._loop.set_paused_topics(paused=self._paused, topics=self._settings.paused_topics)

    def _begin_stop(self, deadline_s: float) -> None:
        self._stop_at_s = self._clock.now_s() + deadline_s
        if self._loop is not None:
            self._loop.begin_closing()
        else:
            self._end_reason = "stopped before copying began"


def run(address: str, token: bytes, _attempt: int) -> None:
    """Run a copy process. This is the entry point for engines (`copy_engine.COPY_ENTRY`)."""
    CopyProcess(address, token).run()
