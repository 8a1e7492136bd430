"""Spark's Python daemon, with the modules of a copy loaded before it forks.

Spark starts `python -m <this module> pyspark.worker` once and lets it fork a process for each
task (`spark.python.daemon.module`). Modules imported here are loaded once and their memory is
shared; `gc.freeze` keeps the collector from touching, and so copying, the shared pages. Nothing
imported here may start a thread: threads do not survive a fork.

Local mode only: on a cluster the daemon starts before our packages have arrived.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import os
import re
import sys

from connect_runtime.system import process_lifecycle
from mm2.copier import engine
from mm2.copier.spark import executor_job

_ARCHIVE_NAME = re.compile(r"pyspark\.zip|py4j-.*\.zip|spark-core_.*\.jar")
PRELOADED_MODULES = (
    "pyspark.worker",
    "pyspark.taskcontext",
    *executor_job.REQUIRED_PACKAGES,
    engine.COPY_ENTRY.split(":")[0],
)


def main() -> None:
    """Run as pyspark's daemon: load what copies need once, so that its children have it."""
    process_lifecycle.skip_test_imports()
    remove_archives_from_path()
    for name in PRELOADED_MODULES:
        # What cannot be imported is reported by the copy that needs it, over its channel.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    daemon = importlib.import_module("pyspark.daemon")
    gc.collect()
    gc.freeze()
    daemon.manager()


def remove_archives_from_path() -> None:
    """Take Spark's jar and zips off the Python path: pyspark is installed beside them.

    Every forked worker would read the jar's directory of 10,000 names again (14 MB, 80 ms), and
    what is imported from a zip is compiled each time.
    """
    archives = [path for path in sys.path if _ARCHIVE_NAME.fullmatch(os.path.basename(path))]
    rest = [path for path in sys.path if path not in archives]
    if importlib.machinery.PathFinder.find_spec("pyspark", rest) is None:
        return
    sys.path[:] = rest
    for path in archives:
        sys.path_importer_cache.pop(path, None)


if __name__ == "__main__":
    main()
