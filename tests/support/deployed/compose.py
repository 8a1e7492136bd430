"""What is wrong with a compose file, held against our image and the repository."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.deployed import image
from tests.support.deployed.image import Image

MM2 = "mm2"


def read(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text())
    assert isinstance(found, dict)
    return found


def wrong(document: Mapping[str, Any], *, folder: Path, made: Image) -> list[str]:
    """In words; `folder` is the file's own, where relative paths begin."""
    found = []
    for name, service in document["services"].items():
        found += [f"{name}: {each}" for each in _of_any(document, service, folder=folder)]
    found += [f"{MM2}: {each}" for each in _of_ours(document["services"][MM2], made)]
    brokers = [each for each in document["services"].values() if "CLUSTER_ID" in _variables(each)]
    if len(brokers) < 2 or len({_variables(each)["CLUSTER_ID"] for each in brokers}) < len(brokers):
        found.append("two clusters are to be told apart: give each its own CLUSTER_ID")
    return found


def mounts(service: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """What, where, and whether it may only be read."""
    for each in service.get("volumes", []):
        source, target, *mode = each.split(":")
        yield source, target, "ro" in mode


def _of_any(
    document: Mapping[str, Any], service: Mapping[str, Any], *, folder: Path
) -> Iterator[str]:
    for source, _, _ in mounts(service):
        if source.startswith("."):
            if not (folder / source).exists():
                yield f"mounts {source}, which is not there"
        elif source not in document["volumes"]:
            yield f"mounts the volume {source}, which is not declared"
    for port in service.get("ports", []):
        if not port.startswith("127.0.0.1:"):
            yield f"serves {port} to everybody: it asks nobody who he is"
    for other in service.get("depends_on", []):
        if other not in document["services"]:
            yield f"depends on {other}, which is not there"
    name = service.get("image", "")
    if "/" in name and (":" not in name or name.endswith(":latest")):
        yield f"{name} is another one tomorrow: name its version"


def _of_ours(service: Mapping[str, Any], made: Image) -> Iterator[str]:
    if service.get("user") != f"{made.uid}:{made.uid}":
        yield f"runs as {service.get('user')}, the image as {made.uid}"
    if service.get("read_only") is not True:
        yield "may write everywhere: read_only is missing"
    if service.get("cap_drop") != ["ALL"]:
        yield "keeps rights of root's: cap_drop"
    writable = {target for _, target, only_read in mounts(service) if not only_read}
    writable |= {each.partition(":")[0] for each in service.get("tmpfs", [])}
    if writable != {image.SCRATCH, made.state}:
        yield f"may write to {sorted(writable)}, not to {image.SCRATCH} and {made.state}"
    served = {int(port.rpartition(":")[2]) for port in service["ports"]}
    if served != made.ports:
        yield f"serves {sorted(served)}, the image {sorted(made.ports)}"
    command = service.get("command", made.command[1:])
    yield from image.not_a_command([made.command[0], *command])
    if command[-1:] == ["clusters.yaml"] or command == made.command[1:]:
        wanted = f"{made.at}/clusters.yaml"
        if wanted not in {target for _, target, _ in mounts(service)}:
            yield f"has no {wanted}"


def _variables(service: Mapping[str, Any]) -> Mapping[str, str]:
    found = service.get("environment", {})
    assert isinstance(found, dict)
    return found
