"""Kafka's own command line tools, many of them in one JVM: each start of one costs seconds.

The program beside this module is compiled in memory, as in `java_settings`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from connect_runtime.system import java_installation
from mm2.copier.spark import jvm
from mm2.sandbox import kafka_jars

TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions.sh": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}
"""What the shell scripts of Kafka's distribution start."""
_PROGRAM = Path(__file__).with_name("RunTools.java")
_CLASS = "tests.interop.RunTools"


def run(lines: Sequence[str], *, folder: Path, timeout_s: float = 200.0) -> list[tuple[int, str]]:
    """Exit code and output of each command line, in this order; files are looked for in `folder`.

    The newest Kafka's tools are run.
    """
    asked, answered = folder / "asked.tsv", folder / "answered"
    split = [shlex.split(line) for line in lines]
    asked.write_text("".join("\t".join([TOOLS[words[0]], *words[1:]]) + "\n" for words in split))
    sparks = jvm.find_spark_home() / "jars"
    compiler = [*sparks.glob("janino-*.jar"), *sparks.glob("commons-compiler-*.jar")]
    assert len(compiler) == 2, compiler
    done = subprocess.run(
        [
            *(str(java_installation.find_java().program), "-XX:TieredStopAtLevel=1"),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *("-cp", os.pathsep.join([f"{kafka_jars.ensure_jars()}/*", *map(str, compiler)])),
            *("org.codehaus.janino.SimpleCompiler", str(_PROGRAM), _CLASS),
            *(str(asked), str(answered)),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found, left = [], answered.read_bytes()
    while left:
        head, _, left = left.partition(b"\n")
        code, size = map(int, head.split())
        found.append((code, left[:size].decode()))
        left = left[size:]
    assert len(found) == len(lines)
    return found
