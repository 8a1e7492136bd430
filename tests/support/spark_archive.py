"""A class-data archive for the JVMs of Spark's drivers: each starts for half the CPU with it.

It is made once for each Spark and Java, from a driver that runs one job (ten seconds), and kept in
the virtual environment, as a JVM wants the very jars of which it was made. One that it does not fit
ignores it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from connect_runtime.base import errors
from connect_runtime.system import java
from mm2.pipeline.spark import jvm
from mm2.sandbox import artefacts

OPTIONS = "SPARK_SUBMIT_OPTS"
"""The variable from which Spark's launcher takes options for the JVMs of drivers."""
_MAKING_S = 300.0
_DRIVER = """
import pyspark
context = pyspark.SparkContext("local[1]", "archive")
context.parallelize([1], 1).map(str).collect()
machine = context._gateway.proc
context.stop()
machine.stdin.close()
machine.wait()
"""


def offer() -> None:
    """Drivers that are started from now on, here and by children, use it. Without one all works."""
    path = archive()
    if path is not None:
        given = os.environ.get(OPTIONS, "")
        os.environ[OPTIONS] = f"{given} -XX:SharedArchiveFile={path}".strip()


def archive() -> Path | None:
    """The archive, which is made if there is none yet; None where none can be made."""
    try:
        path = _path(jvm.spark_home())
        if not path.exists():
            with artefacts.locked(path.with_name("spark.jsa.lock"), say=artefacts.to_stderr):
                if not path.exists():
                    _make(path)
        return path if path.stat().st_size else None
    except (OSError, subprocess.SubprocessError, errors.FatalError):
        return None


def _path(spark_home: Path) -> Path:
    """Named after what the JVM checks: the jars with their sizes and times, and the Java."""
    found = java.find()
    parts = [str(spark_home), str(found.program), found.banner]
    for jar in sorted((spark_home / "jars").iterdir()):
        status = jar.stat()
        parts.append(f"{jar.name} {status.st_size} {status.st_mtime_ns}")
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return Path(sys.prefix) / f"spark.{key}.jsa"


def _make(path: Path) -> None:
    for old in path.parent.glob("spark.*.jsa"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix=".spark-", dir=path.parent) as work:
        fresh = Path(work) / "archive.jsa"
        flags = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={fresh}"
        subprocess.run(
            [sys.executable, "-c", _DRIVER],
            cwd=work,
            env=os.environ | {OPTIONS: flags, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # no pipe: a JVM may outlive who asked for it
            stderr=subprocess.DEVNULL,
            timeout=_MAKING_S,
            check=False,
        )
        if not fresh.exists():
            fresh.touch()  # this Java makes none: remembered as an empty file
        fresh.replace(path)
