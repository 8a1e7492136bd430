"""Formats the storage of new brokers, with Kafka's own tool."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

from connect_runtime.system import processes
from mm2.sandbox import broker, failures, jvm

_TIMEOUT_S = 120.0


def new_cluster_id() -> str:
    """A random cluster id as Kafka spells it: 22 characters of URL-safe base64.

    None starts with a hyphen (as in Kafka's `Uuid.randomUuid`): tools take that for an option.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def format_all(
    brokers: Iterable[broker.Broker],
    *,
    cluster_id: str,
    flags: tuple[str, ...],
    arguments: Sequence[str] = (),
) -> None:
    """Format the storage of all `brokers`, at once; `arguments` are more words for the tool."""
    running: list[tuple[broker.Broker, Path, processes.Child]] = []
    try:
        for node in brokers:
            node.prepare()
            log_path = node.folder / "format.log"
            argv = jvm.command(
                "kafka.tools.StorageTool",
                *("format", "--cluster-id", cluster_id),
                *("--config", str(node.properties_path), *arguments),
                jars=node.jars,
                flags=flags,
            )
            with log_path.open("wb") as log:
                running.append((node, log_path, processes.start(argv, output=log)))
        for node, log_path, child in running:
            if child.wait(_TIMEOUT_S) != 0:
                raise failures.SandboxError(
                    f"formatting the storage of broker {node.node_id} in {node.folder}:\n  "
                    + log_path.read_text(errors="replace").strip().replace("\n", "\n  ")
                )
    finally:
        for _, _, child in running:
            child.kill()
