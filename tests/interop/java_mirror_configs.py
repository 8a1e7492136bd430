"""What Java's MirrorMaker 2 decides by configuration alone, asked in one JVM for many cases.

The program beside this module is compiled in memory by Janino, which ships inside PySpark.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connect_runtime.system import java_installation
from mm2.copier.spark import jvm
from mm2.sandbox import kafka_jars

_PROGRAM = Path(__file__).with_name("MirrorConfigs.java")
_CLASS = "tests.interop.MirrorConfigs"
_TIMEOUT_S = 100.0
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A configuration that is right; `kind` is source, checkpoint or heartbeat.

    `partitions` (or `groups`) are shared out to at most `tasks` tasks.
    """

    kind: str
    properties: Mapping[str, str]
    tasks: int = 1
    partitions: Sequence[tuple[str, int]] = ()
    groups: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Acls:
    """`bindings`: (resource, name, pattern, principal, host, operation, permission)."""

    properties: Mapping[str, str]
    bindings: Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`entries`: (name, value, `ConfigEntry.ConfigSource`, sensitive, read only)."""

    properties: Mapping[str, str]
    entries: Sequence[tuple[str, str, str, bool, bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A source offset that a user wants altered."""

    kind: str
    partition: Mapping[str, Any] | None
    offset: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`validate` has pairs of kind and properties."""

    files: Sequence[Path] = ()
    validate: Sequence[tuple[str, Mapping[str, str]]] = ()
    connectors: Sequence[Connector] = ()
    acls: Sequence[Acls] = ()
    settings: Sequence[Settings] = ()
    offsets: Sequence[Offset] = ()


def ask(
    folder: Path, asked: Question, *, environment: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """`definitions`, and an answer for each question in its order (for files: by path)."""
    question, answer = folder / "question.json", folder / "answer.json"
    question.write_text(json.dumps(_told(asked)))
    argv = [
        str(java_installation.find_java().program),
        "-XX:TieredStopAtLevel=1",
        _QUIET,
        "-cp",
        _class_path(),
    ]
    argv += ["org.codehaus.janino.SimpleCompiler", str(_PROGRAM), _CLASS]
    done = subprocess.run(
        [*argv, str(question), str(answer)],
        cwd=folder,
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads(answer.read_text())
    assert isinstance(found, dict)
    return found


def _told(asked: Question) -> dict[str, Any]:
    return {
        "files": [*map(str, asked.files)],
        "validate": [{"kind": kind, "properties": dict(props)} for kind, props in asked.validate],
        "connectors": [
            {
                "kind": each.kind,
                "properties": dict(each.properties),
                "tasks": each.tasks,
                "partitions": [list(pair) for pair in each.partitions],
                "groups": list(each.groups),
            }
            for each in asked.connectors
        ],
        "acls": [
            {"properties": dict(each.properties), "bindings": [list(one) for one in each.bindings]}
            for each in asked.acls
        ],
        "settings": [
            {"properties": dict(each.properties), "entries": [list(one) for one in each.entries]}
            for each in asked.settings
        ],
        "offsets": [dataclasses.asdict(each) for each in asked.offsets],
    }


def _class_path() -> str:
    sparks = jvm.find_spark_home() / "jars"
    compiler = [*sparks.glob("janino-*.jar"), *sparks.glob("commons-compiler-*.jar")]
    assert len(compiler) == 2, compiler
    return os.pathsep.join([f"{kafka_jars.ensure_jars()}/*", *map(str, compiler)])
