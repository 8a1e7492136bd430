"""Java's own Connect worker from the jars of the brokers: standalone, at a port of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx

from connect_runtime.system import processes
from mm2.sandbox import artefacts, jvm, ports
from tests.support import eventually

_MAIN = "org.apache.kafka.connect.cli.ConnectStandalone"
_START_S = 120.0


@contextlib.contextmanager
def standalone(
    bootstrap: str, folder: Path, properties: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Its URL, without a slash at the end; it ends with the block."""
    url = f"http://127.0.0.1:{ports.reserve().port}"
    converter = "org.apache.kafka.connect.json.JsonConverter"
    written = {
        "bootstrap.servers": bootstrap,
        "key.converter": converter,
        "value.converter": converter,
        "offset.storage.file.filename": str(folder / "offsets"),
        "listeners": url,
        **(properties or {}),
    }
    file = folder / "worker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in written.items()))
    argv = jvm.command(_MAIN, str(file), jars=artefacts.jars(), flags=jvm.TEST_FLAGS)
    with (folder / "worker.log").open("wb") as log:
        child = processes.start(argv, output=log)
        try:
            eventually.eventually(lambda: _healthy(url), _START_S, "Java's worker starts")
            yield url
        finally:
            child.kill()


def _healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False, timeout=5).is_success
    except httpx.HTTPError:
        return False
