"""One Kafka broker process, with its settings, its data, and the formatting of its storage.

Storage is formatted with Kafka's own tool. The tool's output is identical for all brokers of a
release, except for the cluster id, node id and directory id. Therefore the tool runs only once and
its output is cached next to the jars, which saves a JVM start per broker.
"""

from __future__ import annotations

import base64
import os
import tempfile
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mm2.sandbox import java_server_process
from mm2.sandbox.java_server_process import JavaServer, ProgramRunner, RunningProgram
from mm2.sandbox.sandbox_errors import SandboxError


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """Settings and start options of a broker."""

    node_id: int
    folder: Path
    runner: ProgramRunner
    settings: Mapping[str, str]
    """Complete broker settings (`server.properties`)."""
    jvm: tuple[str, ...] = java_server_process.TEST_JVM_FLAGS
    ready_text: str = "Kafka Server started"
    """Log text that shows that the broker is registered and accepts requests."""
    before_start: Callable[[], None] = lambda: None
    """Function that is called before each start of the broker."""


class KafkaBroker(JavaServer):
    """A Kafka broker process and its directory. Not thread-safe. The broker is down until `start`
    is called."""

    def __init__(self, spec: BrokerSpec) -> None:
        super().__init__(
            f"broker {spec.node_id}",
            spec.folder,
            log_name="broker.log",
            runner=spec.runner,
            started=lambda text: spec.ready_text in text,
        )
        self.node_id = spec.node_id
        self._spec = spec
        self._settings = dict(spec.settings)

    @property
    def properties_path(self) -> Path:
        return self.folder / "server.properties"

    @property
    def data_directory(self) -> Path:
        """Directory of the broker's logs and formatted metadata. The broker has only this one log
        directory."""
        return Path(self._settings["log.dirs"])

    def launch(self) -> None:
        """Start the broker process without waiting until it accepts requests."""
        if not self.is_running:
            self._spec.before_start()
        super().launch()

    def write_startup_files(self) -> None:
        """Write the broker's settings file into its directory."""
        java_server_process.write_settings_file(self.properties_path, self._settings)

    def make_start_command(self) -> list[str]:
        return self.runner.make_broker_command(self.properties_path, flags=self._spec.jvm)

    def change_settings(self, changes: Mapping[str, str | None]) -> None:
        """Change broker settings for the next start. A value of None removes the setting."""
        merged = {**self._settings, **changes}
        self._settings = {key: value for key, value in merged.items() if value is not None}


_FORMAT_TIMEOUT_S = 120.0
_META_PROPERTIES = "meta.properties"
_FEATURES_SNAPSHOT = "bootstrap.checkpoint"
"""Snapshot file that contains the feature levels with which a new cluster starts."""


def make_cluster_id() -> str:
    """Create a random cluster id as Kafka does: 22 characters of URL-safe base64.

    As in Kafka's `Uuid.randomUuid`, the id never starts with a hyphen, because command-line tools
    would parse such an id as an option.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def format_storage(brokers: Iterable[KafkaBroker], *, cluster_id: str) -> None:
    """Format the storage of all `brokers` concurrently."""
    nodes = list(brokers)
    for node in nodes:
        node.write_startup_files()
    unformatted = [node for node in nodes if not _write_cached_storage(node, cluster_id=cluster_id)]
    _run_storage_tool(unformatted, cluster_id=cluster_id)
    for node in unformatted[:1]:
        _cache_formatted_storage(node)


def _write_cached_storage(node: KafkaBroker, *, cluster_id: str) -> bool:
    """Write the cached output of the storage tool into the broker's directory. Return False if
    nothing is cached."""
    kept = node.runner.features
    if kept is None or not kept.exists():
        return False
    node.data_directory.mkdir(parents=True, exist_ok=True)
    (node.data_directory / _FEATURES_SNAPSHOT).write_bytes(kept.read_bytes())
    names = {
        "version": "1",
        "cluster.id": cluster_id,
        "node.id": str(node.node_id),
        "directory.id": make_cluster_id(),
    }
    (node.data_directory / _META_PROPERTIES).write_text(
        "".join(f"{key}={value}\n" for key, value in names.items())
    )
    return True


def _cache_formatted_storage(node: KafkaBroker) -> None:
    kept = node.runner.features
    if kept is None:
        return
    try:
        with tempfile.NamedTemporaryFile(dir=kept.parent, prefix=".features-") as fresh:
            fresh.write((node.data_directory / _FEATURES_SNAPSHOT).read_bytes())
            fresh.flush()
            os.link(fresh.name, kept)
    except OSError:
        return  # the cache is read-only, or another process has just filled it


def _run_storage_tool(brokers: Sequence[KafkaBroker], *, cluster_id: str) -> None:
    running: list[tuple[KafkaBroker, Path, RunningProgram]] = []
    try:
        for node in brokers:
            log_path = node.folder / "format.log"
            argv = node.runner.make_storage_tool_command(
                *("format", "--cluster-id", cluster_id),
                *("--config", str(node.properties_path)),
                flags=java_server_process.TEST_JVM_FLAGS,
            )
            with log_path.open("wb") as log:
                child = node.runner.start(argv, output=log, cwd=node.folder)
            running.append((node, log_path, child))
        for node, log_path, child in running:
            if child.wait(_FORMAT_TIMEOUT_S) != 0:
                raise SandboxError(
                    f"formatting the storage of broker {node.node_id} in {node.folder}:\n  "
                    + log_path.read_text(errors="replace").strip().replace("\n", "\n  ")
                )
    finally:
        for _, _, child in running:
            child.kill()
