"""What `cluster_watch` says of clusters that never answered, over sockets of this machine."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import pytest

from connect_runtime.system.supervised_threads import ThreadGroup
from connect_runtime.system.system_clock import SystemClock
from mm2.clusters.reachability_monitor import ReachabilityMonitor
from mm2.config import config_loader
from mm2.config.mm2_settings import Mm2Settings
from tests.support import eventually

CLOCK = SystemClock()
WAIT_S = 30.0


@dataclass
class Running:
    settings: Mm2Settings


def settings(tmp_path, east: str, west: str) -> Mm2Settings:
    file = tmp_path / "clusters.yaml"
    file.write_text(
        f"clusters:\n  east: {{bootstrap.servers: '{east}'}}\n"
        f"  west: {{bootstrap.servers: '{west}'}}\n"
        "flows:\n- {from: east, to: west}\n"
    )
    return config_loader.load_config_file(file, environment={})


@pytest.fixture
def closed() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_why_clusters_do_not_answer_is_known_and_logged_once(tmp_path, closed, caplog):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = f"127.0.0.1:{listener.getsockname()[1]}"
        watch = ReachabilityMonitor(Running(settings(tmp_path, closed, silent)), clock=CLOCK)
        owned = ThreadGroup(on_unexpected_end=lambda _: None)
        owned.start("watch", watch.run)
        try:
            eventually.eventually(
                lambda: "target west" in watch.get_unreachable_reason("east->west"), WAIT_S
            )
            source, _, target = watch.get_unreachable_reason("east->west").partition("; target ")
        finally:
            assert owned.stop_all(10.0) == []
    assert source.startswith("source east unreachable since ")
    assert source.endswith(f"Z: connection refused ({closed}), retrying; diagnose with: mm2 check")
    assert target.endswith(
        f"Z: no response within 4 s ({silent}), retrying; diagnose with: mm2 check"
    )
    assert watch.get_unreachable_reason("no->flow") == ""
    about_east = [each for each in caplog.messages if closed in each]
    assert len(about_east) == 1
    assert about_east[0].startswith("east unreachable since ")
