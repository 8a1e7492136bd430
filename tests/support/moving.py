"""Brokers that come back at other addresses."""

from __future__ import annotations

from mm2.sandbox.sandbox_cluster import SandboxCluster


def restart_elsewhere(running: SandboxCluster, port: int) -> None:
    """The cluster's only broker stops, and starts again with its clients' listener at `port`."""
    broker = running.brokers[1]
    before, after = f"CLIENT://{running.bootstrap}", f"CLIENT://127.0.0.1:{port}"
    running.stop()
    broker.change_settings(
        {
            key: broker._settings[key].replace(before, after)
            for key in ("listeners", "advertised.listeners")
        }
    )
    broker.start()
