"""What Java's MirrorMaker 2 makes of properties files, asked in one JVM for all of them.

The program beside this module is compiled in memory by Janino, which ships inside PySpark: a JRE
is all that is needed.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from connect_runtime.system import java_installation
from mm2.copier.spark import jvm
from mm2.sandbox import kafka_jars

_PROGRAM = Path(__file__).with_name("EffectiveSettings.java")
_CLASS = "tests.interop.EffectiveSettings"
_TIMEOUT_S = 100.0


def ask(
    folder: Path,
    *,
    files: Sequence[Path] = (),
    properties: Sequence[Path] = (),
    probes: Mapping[str, Sequence[str]],
    environment: Mapping[str, str] = os.environ,
) -> dict[str, Any]:
    """Everything that the program finds; relative paths in `files` start at `folder`."""
    asked = {"files": [*map(str, files)], "properties": [*map(str, properties)], **probes}
    question, answer = folder / "question.json", folder / "answer.json"
    question.write_text(json.dumps(asked))
    argv = [
        str(java_installation.find_java().program),
        "-XX:TieredStopAtLevel=1",
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


def _class_path() -> str:
    sparks = jvm.find_spark_home() / "jars"
    compiler = [*sparks.glob("janino-*.jar"), *sparks.glob("commons-compiler-*.jar")]
    assert len(compiler) == 2, compiler
    return os.pathsep.join([f"{kafka_jars.ensure_jars()}/*", *map(str, compiler)])
