"""A Kafka cluster that is not Apache's: kfake, steered from the test. It needs Go to be built.

Built once into the cache folder from `kfake/`, whose go.sum pins every module; Go from 1.21 on
fetches the toolchain that go.mod names by itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from connect_runtime.protocol import api_versions
from connect_runtime.system import child_processes
from connect_runtime.system import secure_file_access as system_files
from mm2.sandbox import kafka_jars, port_reservation
from tests.support import eventually

_SOURCE = Path(__file__).with_name("kfake")
_BUILD_S = 900.0
_NEEDED = (1, 21)
ALWAYS = -1


def program() -> Path:
    """The built program; skips the test where there is no Go, or its modules cannot be fetched."""
    files = [_SOURCE / name for name in ("main.go", "wires.go", "go.mod", "go.sum")]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    built = system_files.find_user_cache_directory() / f"kfake-{digest}"
    built.parent.mkdir(parents=True, exist_ok=True)
    with kafka_jars.hold_file_lock(built.with_suffix(".lock"), report=kafka_jars.print_to_stderr):
        if not built.exists():
            _build(_go(), built)
    return built


def _go() -> str:
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if found is None:
        pytest.skip("Go is missing: install golang 1.21 or newer (go.dev/dl)")
    said = subprocess.run([found, "version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"go(\d+)\.(\d+)", said)
    if match is None or (int(match[1]), int(match[2])) < _NEEDED:
        pytest.skip(f"Go is too old ({said.strip()}): install 1.21 or newer (go.dev/dl)")
    return found


def _build(go: str, built: Path) -> None:
    partial = built.with_suffix(".partial")
    try:
        done = subprocess.run(
            [go, "build", "-trimpath", "-o", str(partial), "."],
            cwd=_SOURCE,
            env={**os.environ, "GOFLAGS": "-mod=readonly"},
            capture_output=True,
            text=True,
            timeout=_BUILD_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"Go did not build kfake within {_BUILD_S:.0f} s")
    if done.returncode:
        pytest.skip(f"Go could not build kfake (are its modules to be had?): {done.stderr[-800:]}")
    partial.replace(built)


class SecondCluster:
    """Brokers with node ids from 0, to be used in a `with`; nothing of it outlives the test."""

    def __init__(self, folder: Path, *, brokers: int = 3) -> None:
        self._reserved = [port_reservation.reserve_port() for _ in range(brokers + 1)]
        self._control, *self._brokers = (each.port for each in self._reserved)
        self._log = folder / "kfake.log"
        folder.mkdir(parents=True, exist_ok=True)
        listed = ",".join(map(str, self._brokers))
        argv = [str(program()), "-id", folder.name, "-ports", listed]
        argv += ["-control", str(self._control)]
        with self._log.open("ab") as output:
            self._child = child_processes.start_process(argv, output=output)

    def __enter__(self) -> Self:
        eventually.eventually(self._ready, 30.0, lambda: f"kfake serves: {self._log.read_text()}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._child.kill()
        for each in self._reserved:
            each.release()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._brokers)

    def client_properties(self) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap, "security.protocol": "PLAINTEXT"}

    def fault(
        self,
        *apis: str,
        error: int,
        count: int = 1,
        topic: str = "",
        partitions: Sequence[int] | None = None,
        top_level: bool = False,
    ) -> int:
        """The next `count` requests of these kinds fail so; returns its number, for `hits`."""
        keys = [api_versions.API_KEYS[api] for api in apis]
        found = self._order(
            "fault",
            keys=keys,
            error=error,
            count=count,
            topic=topic,
            partitions=partitions,
            top_level=top_level,
        )
        return int(found["id"])

    def hits(self, fault: int) -> int:
        return int(self._order("hits", id=fault)["hits"])

    def clear(self, fault: int) -> None:
        self._order("clear", id=fault)

    def throttle(self, api: str, *, ms: int, count: int = 1) -> None:
        """The next answers ask for a pause; they are those of versions with flexible headers."""
        self._order("throttle", key=api_versions.API_KEYS[api], ms=ms, count=count)

    def cut(self, api: str, *, count: int = 1) -> None:
        """The next requests are carried out, and the connection ends in place of the answer."""
        self._order("cut", key=api_versions.API_KEYS[api], count=count)

    def move(self, topic: str, partition: int, *, node: int) -> None:
        self._order("move", topic=topic, partition=partition, node=node)

    def rehash(self) -> None:
        """Other brokers coordinate from now on."""
        self._order("rehash")

    def _ready(self) -> bool:
        assert self._child.poll() is None, f"kfake has ended: {self._log.read_text()}"
        try:
            self._order("clear", id=0)
        except OSError:
            return False
        return True

    def _order(self, what: str, **fields: Any) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._control}/{what}", data=json.dumps(fields).encode()
        )
        with urllib.request.urlopen(request, timeout=10.0) as found:
            return json.load(found)
