"""The metrics that a running JVM shows over JMX, read by a small Java program."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.system import java_installation
from mm2.sandbox import kafka_jars
from tests.support import janino

_PROGRAM = Path(__file__).with_name("BeanReader.java")
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Bean:
    """One MBean: `kind` is its `type`, `tags` are the others, values are as Java prints them."""

    domain: str
    kind: str
    tags: dict[str, str]
    attributes: dict[str, str]


def flags(port: int) -> tuple[str, ...]:
    """For the JVM that is to be read at that port of this machine."""
    prefix = "-Dcom.sun.management.jmxremote"
    return (
        f"{prefix}.port={port}",
        f"{prefix}.rmi.port={port}",
        f"{prefix}.host=127.0.0.1",
        f"{prefix}.authenticate=false",
        f"{prefix}.ssl=false",
        "-Djava.rmi.server.hostname=127.0.0.1",
    )


def read(folder: Path, port: int, pattern: str) -> list[Bean]:
    """Those whose object names match, such as `kafka.connect:*`."""
    answer = folder / "beans.json"
    path = os.pathsep.join([_compiled().name, f"{kafka_jars.ensure_jars()}/*"])
    argv = [
        str(java_installation.find_java().program),
        "-XX:TieredStopAtLevel=1",
        "-Xmx128m",
        "-cp",
        path,
    ]
    done = subprocess.run(
        [*argv, "tests.interop.BeanReader", str(port), pattern, str(answer)],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return [
        Bean(domain, tags["type"], {k: v for k, v in tags.items() if k != "type"}, attributes)
        for domain, tags, attributes in json.loads(answer.read_text())
    ]


@functools.cache
def _compiled() -> tempfile.TemporaryDirectory[str]:
    """Goes when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="mm2-bean-reader-")
    janino.compile_to(Path(folder.name), [_PROGRAM])
    return folder
