"""Java's own Connect workers, from the jars of the brokers, each at a port of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx

from connect_runtime.system import processes
from mm2.sandbox import artefacts, jvm, ports
from tests.support import eventually

_PACKAGE = "org.apache.kafka.connect"
_CONVERTER = f"{_PACKAGE}.json.JsonConverter"
_START_S = 120.0


@contextlib.contextmanager
def standalone(
    bootstrap: str, folder: Path, properties: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Its URL, without a slash at the end; it ends with the block."""
    own = {"offset.storage.file.filename": str(folder / "offsets"), **(properties or {})}
    with _started("ConnectStandalone", bootstrap, folder, own) as url:
        yield url


@contextlib.contextmanager
def distributed(
    bootstrap: str, folder: Path, properties: Mapping[str, str] | None = None
) -> Iterator[str]:
    """As `standalone`; `properties` has at least `group.id`, which names the topics too."""
    own = {"scheduled.rebalance.max.delay.ms": "0", **(properties or {})}
    for each in ("config", "offset", "status"):
        own[f"{each}.storage.topic"] = f"{own['group.id']}-{each}"
        own[f"{each}.storage.replication.factor"] = "1"
    with _started("ConnectDistributed", bootstrap, folder, own) as url:
        yield url


@contextlib.contextmanager
def _started(
    kind: str, bootstrap: str, folder: Path, properties: Mapping[str, str]
) -> Iterator[str]:
    url = f"http://127.0.0.1:{ports.reserve().port}"
    written = {
        "bootstrap.servers": bootstrap,
        "key.converter": _CONVERTER,
        "value.converter": _CONVERTER,
        "listeners": url,
        **properties,
    }
    file = folder / "worker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in written.items()))
    main = f"{_PACKAGE}.cli.{kind}"
    argv = jvm.command(main, str(file), jars=artefacts.jars(), flags=jvm.TEST_FLAGS)
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
