"""A connector with any number of tasks that cost nothing, for workers of either kind.

Ours is a plugin in Python, Java's the same in Java, compiled by Janino, which ships inside PySpark.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from pathlib import Path

from connect_runtime.system import java
from mm2.pipeline.spark import jvm as spark_jvm
from mm2.sandbox import artefacts

CLASS = "idle_source.IdleSourceConnector"
PLUGIN_PATH = Path(__file__).with_name("plugins")
"""For our workers."""
_COMPILER = Path(__file__).with_name("CompileTo.java")
_SERVICE = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"
_TIMEOUT_S = 60.0


def config(*, tasks: int) -> dict[str, str]:
    """A connector's, but for its name."""
    return {"connector.class": CLASS, "tasks.max": str(tasks)}


def java_classes() -> Path:
    """A folder for a Java worker's class path; it goes when this process ends."""
    return Path(_compiled().name)


@functools.cache
def _compiled() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="mm2-idle-source-")
    sparks = spark_jvm.spark_home() / "jars"
    compiler = [*sparks.glob("janino-*.jar"), *sparks.glob("commons-compiler-*.jar")]
    assert len(compiler) == 2, compiler
    kafka = os.pathsep.join(map(str, artefacts.jars().glob("*.jar")))
    sources = sorted((PLUGIN_PATH / "idle_source").glob("*.java"))
    argv = [str(java.find().program), "-XX:TieredStopAtLevel=1"]
    argv += ["-cp", os.pathsep.join(map(str, compiler)), "org.codehaus.janino.SimpleCompiler"]
    argv += [str(_COMPILER), "tests.support.CompileTo"]
    argv += [folder.name, kafka, *map(str, sources)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    service = Path(folder.name) / _SERVICE
    service.parent.mkdir(parents=True)
    service.write_text(f"{CLASS}\n")
    return folder
