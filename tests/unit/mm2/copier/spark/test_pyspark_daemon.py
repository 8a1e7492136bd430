from __future__ import annotations

import sys
from pathlib import Path

import pyspark

from mm2.copier.spark import pyspark_daemon

HOME = Path(pyspark.__file__).parent
ARCHIVES = [
    str(HOME / "python" / "lib" / "pyspark.zip"),
    str(HOME / "jars" / "spark-core_2.13-4.3.0.jar"),
]


def test_sparks_archives_leave_the_path(monkeypatch):
    ours = "/tmp/spark-of-this-run/userFiles/mm2-copy.zip"
    rest = [ours, *(path for path in sys.path if not path.endswith((".jar", ".zip")))]
    monkeypatch.setattr(sys, "path", [*ARCHIVES, *rest])
    monkeypatch.setitem(sys.path_importer_cache, ARCHIVES[1], None)
    pyspark_daemon.remove_archives_from_path()
    assert sys.path == rest
    assert ARCHIVES[1] not in sys.path_importer_cache


def test_they_stay_where_pyspark_is_nowhere_else(monkeypatch):
    monkeypatch.setattr(sys, "path", [*ARCHIVES, "/nowhere"])
    pyspark_daemon.remove_archives_from_path()
    assert sys.path == [*ARCHIVES, "/nowhere"]
