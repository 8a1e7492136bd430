"""What Java's leaders answer and its members make of answers, asked in one JVM for many cases.

The program beside this module is compiled in memory by Janino, which ships inside PySpark.
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

_PROGRAM = Path(__file__).with_name("AssignorOracle.java")
_CLASS = "tests.interop.AssignorOracle"
_TIMEOUT_S = 100.0


def ask(
    folder: Path, *, leaders: Sequence[Mapping[str, Any]], members: Sequence[Mapping[str, Any]]
) -> dict[str, list[list[Any]]]:
    """`leaders`, `members`: a list of answers for each case, in the order of the questions."""
    question, answer = folder / "question.json", folder / "answer.json"
    question.write_text(json.dumps({"leaders": leaders, "members": members}))
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
