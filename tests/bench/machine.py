"""The lines that say what machine and which versions the figures belong to."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from pathlib import Path

from connect_runtime.system import java_installation
from mm2 import version
from mm2.sandbox import kafka_jars


def line() -> str:
    """`2 cores of AMD EPYC 7B13, 24 GB memory, Linux 6.8`."""
    cores = len(os.sched_getaffinity(0))
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    kernel = ".".join(platform.release().split(".")[:2])
    return (
        f"{cores} cores of {_processor()}, {memory_gb:.0f} GB memory, {platform.system()} {kernel}"
    )


def versions() -> str:
    """Of everything that is measured or measured with."""
    kafka = kafka_jars.KAFKA_JARS.name.rpartition("-")[2]
    spark = importlib.metadata.version("pyspark")
    runtime = java_installation.parse_major_version(java_installation.find_java().banner)
    return (
        f"Apache Kafka (brokers, MirrorMaker 2) {kafka}, mm2 {version.VERSION}, "
        f"Python {platform.python_version()}, PySpark {spark}, Java {runtime}"
    )


def load() -> float:
    """Processes that wanted to run, on average over the last minute."""
    return os.getloadavg()[0]


def _processor() -> str:
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.machine()
