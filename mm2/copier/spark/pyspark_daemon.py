"""Spark's Python daemon, which loads the modules of a copy process before it forks.

Spark starts `python -m <this module> pyspark.worker` once, and the daemon forks a process for each
task (`spark.python.daemon.module`). Modules imported here are loaded once and their memory is
shared. `gc.freeze` prevents the garbage collector from touching, and thereby copying, the shared
pages. Modules imported here must not start a thread, because threads do not survive a fork.

Used in local mode only: on a cluster the daemon starts before the packages have been sent.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import os
import re
import sys

from connect_runtime.system import process_start_and_exit
from mm2.copier import copy_engine
from mm2.copier.spark import executor_job

_ARCHIVE_NAME = re.compile(r"pyspark\.zip|py4j-.*\.zip|spark-core_.*\.jar")
PRELOADED_MODULES = (
    "pyspark.worker",
    "pyspark.taskcontext",
    *executor_job.REQUIRED_PACKAGES,
    copy_engine.COPY_ENTRY.split(":")[0],
)


def main() -> None:
    """Run pyspark's daemon after loading the modules that copy processes need."""
    process_start_and_exit.prevent_test_imports()
    remove_archives_from_path()
    for name in PRELOADED_MODULES:
        # A missing module is reported over the channel of the copy process that needs it.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    daemon = importlib.import_module("pyspark.daemon")
    gc.collect()
    gc.freeze()
    daemon.manager()


def remove_archives_from_path() -> None:
    """Remove Spark's jar and zip files from the Python path. They are not needed, because pyspark
    is installed as a package.

    Otherwise every forked worker would index the 10,000 entries of the jar file (14 MB, 80 ms), and
    modules in a zip file would be compiled again in each process.
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
