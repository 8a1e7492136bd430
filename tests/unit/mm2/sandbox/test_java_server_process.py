from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mm2.sandbox.java_server_process import JavaServer, LocalRunner


class Server(JavaServer):
    """Logs a line, and ends."""

    def write_startup_files(self) -> None:
        pass

    def make_start_command(self) -> list[str]:
        return [sys.executable, "-c", "print('started', flush=True)"]


@pytest.fixture
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("usual_umask")
def test_only_the_owner_can_read_the_log(tmp_path: Path):
    """Kafka logs invalid settings with their values, which may be secrets."""
    server = Server(
        "server",
        tmp_path,
        log_name="broker.log",
        started=lambda _: True,
        runner=LocalRunner(tmp_path),
    )
    server.launch()
    server.await_stopped()
    assert server.log_text == "started\n"
    assert server.log_path.stat().st_mode & 0o777 == 0o600
