"""What the classes of Java's MirrorMaker 2 answer, asked in one JVM for many questions.

Most of them are seen in their own package alone, so the program beside this module is compiled
into a folder of the class path, by Janino, which ships inside PySpark.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from connect_runtime.system import java_installation
from mm2.sandbox import kafka_jars
from tests.support import janino

_PROGRAM = Path(__file__).with_name("MirrorOracle.java")
_CLASS = "org.apache.kafka.connect.mirror.MirrorOracle"
_TIMEOUT_S = 100.0


def ask(folder: Path, questions: Sequence[Mapping[str, Any]]) -> list[Any]:
    """An answer for each question, in their order. What is asked and told: `MirrorOracle.java`."""
    question, answer = folder / "question.json", folder / "answer.json"
    question.write_text(json.dumps(questions))
    path = os.pathsep.join([_compiled().name, f"{kafka_jars.ensure_jars()}/*"])
    argv = [
        str(java_installation.find_java().program),
        "-XX:TieredStopAtLevel=1",
        "-Xmx1g",
        "-cp",
        path,
        _CLASS,
    ]
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
    assert isinstance(found, list)
    assert len(found) == len(questions)
    return found


@functools.cache
def _compiled() -> tempfile.TemporaryDirectory[str]:
    """Goes when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="mm2-mirror-oracle-")
    janino.compile_to(Path(folder.name), [_PROGRAM])
    return folder
