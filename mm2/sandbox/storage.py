"""Formats the storage of new brokers, with Kafka's own tool."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

from mm2.sandbox import broker, failures, jvm, runners

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
    arguments: Sequence[str] = (),
) -> None:
    """Format the storage of all `brokers`, at once; `arguments` are more words for the tool."""
    running: list[tuple[broker.Broker, Path, runners.Program]] = []
    try:
        for node in brokers:
            node.prepare()
            log_path = node.folder / "format.log"
            argv = node.runner.storage_tool(
                *("format", "--cluster-id", cluster_id),
                *("--config", str(node.properties_path), *arguments),
                flags=jvm.TEST_FLAGS,
            )
            with log_path.open("wb") as log:
                child = node.runner.start(argv, output=log, cwd=node.folder)
            running.append((node, log_path, child))
        for node, log_path, child in running:
            if child.wait(_TIMEOUT_S) != 0:
                raise failures.SandboxError(
                    f"formatting the storage of broker {node.node_id} in {node.folder}:\n  "
                    + log_path.read_text(errors="replace").strip().replace("\n", "\n  ")
                )
    finally:
        for _, _, child in running:
            child.kill()
