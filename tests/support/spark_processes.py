"""A Spark engine in a process that may be killed (`tests/system/spark_process.py`), and what the
status API of a running driver says."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import copies

ROOT = Path(__file__).parents[2]


@contextmanager
def running(
    *, copies_wanted: int, slots: int, entry: str = copies.ECHO, **settings: Any
) -> Iterator[subprocess.Popen[str]]:
    """`settings` are those of Spark; the first `slots` copies run before its first answer."""
    options = {"settings": settings, "entry": entry, "copies": copies_wanted, "slots": slots}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.system.spark_process", json.dumps(options)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def answer(process: subprocess.Popen[str], line: str | None = None) -> dict[str, Any]:
    """The next answer, after sending a line (`look`, `stop first`) if one is given."""
    assert process.stdin is not None
    assert process.stdout is not None
    if line is not None:
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
    told: dict[str, Any] = json.loads(process.stdout.readline())
    return told


def ask(ui_address: str | None, path: str) -> Any:
    """Spark's status API about its one application."""
    with urllib.request.urlopen(f"{ui_address}/api/v1/applications", timeout=60) as found:
        application = json.load(found)[0]["id"]
    url = f"{ui_address}/api/v1/applications/{application}/{path}"
    with urllib.request.urlopen(url, timeout=60) as found:
        return json.load(found)


def driver_ports(ui_address: str | None) -> dict[str, int]:
    """Where the RPC of a local driver and its block manager listen."""
    rpc = dict(ask(ui_address, "environment")["sparkProperties"])["spark.driver.port"]
    (executor,) = ask(ui_address, "executors")
    host, _, blocks = executor["hostPort"].rpartition(":")
    assert host == "127.0.0.1"
    return {"rpc": int(rpc), "block manager": int(blocks)}
