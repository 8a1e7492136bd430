"""A software bill of materials of an installed mm2, made of its locks: CycloneDX 1.5, as JSON.

    python -m deploy.locks.sbom > sbom.json

The same locks give the same bytes. Jars that the package pyspark carries are in its wheel, whose
hash is here; Java and the base image are not.
"""

from __future__ import annotations

import json
import tomllib
import uuid
from typing import Any

from deploy.locks import locked
from deploy.locks.locked import Package

_PROJECT = locked.DEVELOPMENT.with_name("pyproject.toml")
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "pkg:pypi/mm2")


def build_sbom() -> dict[str, Any]:
    """What runs is `required`, what builds it `excluded`."""
    project = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]
    name, version = project["name"], project["version"]
    runs, builds = locked.read(locked.RUNTIME), locked.read(locked.BUILD)
    names = {each.name for each in runs}
    components = [_component(each, scope="required") for each in runs]
    components += [_component(each, scope="excluded") for each in builds if each.name not in names]
    root = f"pkg:pypi/{name}@{version}"
    content = json.dumps([root, components], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, content)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": name,
                "version": version,
                "description": project["description"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": root,
            }
        },
        "components": components,
        "dependencies": [{"ref": root, "dependsOn": [each.purl for each in runs]}],
    }


def _component(package: Package, *, scope: str) -> dict[str, Any]:
    """A lock allows several files of a version, of which one is installed: the hashes of all are
    properties, since CycloneDX takes those of a component for those of one file."""
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "scope": scope,
        "purl": package.purl,
        "properties": [{"name": "mm2:locked:sha256", "value": each} for each in package.sha256],
    }


if __name__ == "__main__":
    print(json.dumps(build_sbom(), indent=2))  # noqa: T201 - it is a command
