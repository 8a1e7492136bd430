"""A connector with any number of tasks that cost nothing, for workers of either kind.

Ours is a plugin in Python, Java's the same in Java.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from tests.support import janino

CLASS = "idle_source.IdleSourceConnector"
PLUGIN_PATH = Path(__file__).with_name("plugins")
"""For our workers."""
_SERVICE = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"


def config(*, tasks: int) -> dict[str, str]:
    """A connector's, but for its name."""
    return {"connector.class": CLASS, "tasks.max": str(tasks)}


def java_classes() -> Path:
    """A folder for a Java worker's class path; it goes when this process ends."""
    return Path(_compiled().name)


@functools.cache
def _compiled() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="mm2-idle-source-")
    janino.compile_to(Path(folder.name), sorted((PLUGIN_PATH / "idle_source").glob("*.java")))
    service = Path(folder.name) / _SERVICE
    service.parent.mkdir(parents=True)
    service.write_text(f"{CLASS}\n")
    return folder
