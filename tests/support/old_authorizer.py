"""A broker whose ACLs are judged as before Kafka 2.8."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.support import janino

NAME = "tests.support.OldAuthorizer"
_SOURCE = Path(__file__).with_name("OldAuthorizer.java")


def flags(folder: Path) -> tuple[str, ...]:
    """JVM flags that put the class `NAME` on the broker's class path: its jar is an agent."""
    classes = folder / "authorizer"
    classes.mkdir()
    janino.compile_to(classes, [_SOURCE])
    jar = folder / "authorizer.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Premain-Class: {NAME}\n")
        for each in sorted(classes.rglob("*.class")):
            archive.write(each, each.relative_to(classes))
    return (f"-javaagent:{jar}",)
