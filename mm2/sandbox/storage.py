"""Formats the storage of new brokers, with Kafka's own tool.

What the tool writes is the same for every broker of a release, but for three names and what its
arguments add (users). So it runs once, and what it wrote is kept beside the jars: a JVM less for
each broker.
"""

from __future__ import annotations

import base64
import os
import tempfile
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

from mm2.sandbox import broker, failures, jvm, runners

_TIMEOUT_S = 120.0
_META = "meta.properties"
_FEATURES = "bootstrap.checkpoint"
"""The snapshot with the levels of the release's features, from which a cluster begins."""


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
    nodes = list(brokers)
    for node in nodes:
        node.prepare()
    if arguments:
        _run_tool(nodes, cluster_id=cluster_id, arguments=arguments)
        return
    unformatted = [node for node in nodes if not _write(node, cluster_id=cluster_id)]
    _run_tool(unformatted, cluster_id=cluster_id)
    for node in unformatted[:1]:
        _keep(node)


def _write(node: broker.Broker, *, cluster_id: str) -> bool:
    """Write what the tool would have written; False if it is not known yet."""
    kept = node.runner.features
    if kept is None or not kept.exists():
        return False
    node.data.mkdir(parents=True, exist_ok=True)
    (node.data / _FEATURES).write_bytes(kept.read_bytes())
    names = {
        "version": "1",
        "cluster.id": cluster_id,
        "node.id": str(node.node_id),
        "directory.id": new_cluster_id(),
    }
    (node.data / _META).write_text("".join(f"{key}={value}\n" for key, value in names.items()))
    return True


def _keep(node: broker.Broker) -> None:
    kept = node.runner.features
    if kept is None:
        return
    try:
        with tempfile.NamedTemporaryFile(dir=kept.parent, prefix=".features-") as fresh:
            fresh.write((node.data / _FEATURES).read_bytes())
            fresh.flush()
            os.link(fresh.name, kept)
    except OSError:
        return  # a cache that cannot be written to, or that another has just written


def _run_tool(
    brokers: Sequence[broker.Broker], *, cluster_id: str, arguments: Sequence[str] = ()
) -> None:
    running: list[tuple[broker.Broker, Path, runners.Program]] = []
    try:
        for node in brokers:
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
