"""The clusters of a demo require a login, which is in private files only."""

from __future__ import annotations

from pathlib import Path

from connect_runtime.system.system_clock import SystemClock
from mm2.config import config_loader
from mm2.sandbox import cluster_security
from mm2.sandbox.cluster_security import ClusterSecurity
from mm2.sandbox.scenarios import replication_demo
from mm2.sandbox.scenarios.progress_printer import ProgressPrinter
from mm2.sandbox.scenarios.replication_demo import Demo, DemoOptions


def test_the_flow_logs_in_at_the_clusters_of_the_demo(tmp_path: Path):
    folder = tmp_path / "a 'b' \"ü\""
    security = ClusterSecurity.create(folder / "security")
    login = security.client_properties(cluster_security.ADMIN_USER, cluster_security.SCRAM_512)
    clusters = {
        "east": {"bootstrap.servers": "127.0.0.1:1", **login},
        "west": {"bootstrap.servers": "127.0.0.1:2", **login},
    }
    text = replication_demo.make_demo_config(clusters, Path("/demo"))
    settings = config_loader.parse_clusters_yaml(
        text, file="clusters.yaml", folder=tmp_path, environment={}
    )
    assert [each.name for each in settings.flows] == ["east->west"]
    assert "stop-producers" in settings.hooks
    for alias, expected in clusters.items():
        assert {key: settings.flat.props[f"{alias}.{key}"] for key in expected} == expected


def test_the_clusters_of_a_demo_require_a_login():
    """A client of a broker without one can read all files of the user who runs the demo."""
    clock = SystemClock()
    demo = Demo(DemoOptions(), progress=ProgressPrinter(clock), now=clock, stop_signal=lambda: None)
    try:
        assert [each.security is not None for each in demo.clusters.values()] == [True, True]
    finally:
        demo.close()
