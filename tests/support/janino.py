"""Java files compiled by Janino, which ships inside PySpark: no JDK is needed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from connect_runtime.system import java_installation
from mm2.copier.spark import jvm
from mm2.sandbox import kafka_jars

_COMPILER = Path(__file__).with_name("CompileTo.java")
_TIMEOUT_S = 60.0


def compile_to(folder: Path, sources: Sequence[Path]) -> None:
    """Classes for a class path, compiled against Kafka's jars."""
    sparks = jvm.find_spark_home() / "jars"
    compiler = [*sparks.glob("janino-*.jar"), *sparks.glob("commons-compiler-*.jar")]
    assert len(compiler) == 2, compiler
    kafka = os.pathsep.join(map(str, kafka_jars.ensure_jars().glob("*.jar")))
    argv = [str(java_installation.find_java().program), "-XX:TieredStopAtLevel=1"]
    argv += ["-cp", os.pathsep.join(map(str, compiler)), "org.codehaus.janino.SimpleCompiler"]
    argv += [str(_COMPILER), "tests.support.CompileTo"]
    argv += [str(folder), kafka, *map(str, sources)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
