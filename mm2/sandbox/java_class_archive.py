"""Class-data sharing (CDS) archive for the sandbox's JVMs, which lets brokers start one second
faster.

The archive is created once per Java version and jar set by starting and stopping a broker, which
takes five seconds. It is cached next to the jars. A JVM ignores an archive that was created with
another Java version or from other jars.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from connect_runtime.system import java_installation
from mm2.sandbox import (
    broker_process,
    broker_settings,
    java_server_process,
    kafka_jars,
    kafka_releases,
    port_reservation,
)
from mm2.sandbox.broker_process import BrokerSpec, KafkaBroker
from mm2.sandbox.java_server_process import LocalRunner
from mm2.sandbox.kafka_releases import KafkaRelease
from mm2.sandbox.sandbox_errors import SandboxError

_STOP_TIMEOUT_S = 60.0


def ensure_class_archive(
    jars: Path, release: KafkaRelease = kafka_releases.NEWEST_RELEASE
) -> tuple[str, ...]:
    """Return the JVM flags that load the CDS archive for `jars`; create the archive if it does not
    exist.

    ZooKeeper-based releases use no archive because they start in little more than a second.
    """
    if release.zookeeper:
        return ()
    path = _get_archive_path(jars)
    try:
        if not path.exists():
            with kafka_jars.hold_file_lock(
                path.with_suffix(".lock"), report=kafka_jars.print_to_stderr
            ):
                if not path.exists():
                    _make_archive(path, jars, release=release)
        return (f"-XX:SharedArchiveFile={path}",) if path.stat().st_size else ()
    except OSError:
        return ()  # the cache is read-only


def _get_archive_path(jars: Path) -> Path:
    """Return the path of the CDS archive.

    The file name depends on the jars' sizes and modification times and on the Java version, because
    a JVM rejects an archive if any of these differ.
    """
    stamp = jars.with_name(jars.name + ".verified")
    jars_key = hashlib.sha256(stamp.read_bytes() if stamp.exists() else b"").hexdigest()[:12]
    found = java_installation.find_java()
    java_key = hashlib.sha256(f"{found.program}\n{found.banner}".encode()).hexdigest()[:12]
    return jars.with_name(f"{jars.name}.{jars_key}.{java_key}.jsa")


def _make_archive(path: Path, jars: Path, *, release: KafkaRelease) -> None:
    jars_key = path.name.removeprefix(jars.name + ".").split(".")[0]
    for old in path.parent.glob(f"{jars.name}.*.jsa"):
        if not old.name.startswith(f"{jars.name}.{jars_key}."):
            old.unlink()
    work = Path(tempfile.mkdtemp(prefix=".classes-", dir=path.parent))
    try:
        fresh = work / "archive.jsa"
        flag = f"-XX:ArchiveClassesAtExit={fresh}"
        _run_archiving_broker(work / "broker-1", jars, release=release, flag=flag)
        if not fresh.exists():
            fresh.touch()  # this Java cannot create archives: an empty file records that
        fresh.replace(path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_archiving_broker(folder: Path, jars: Path, *, release: KafkaRelease, flag: str) -> None:
    with ExitStack() as cleanup:
        client, controller = (port_reservation.reserve_port() for _ in range(2))
        cleanup.callback(client.release)
        cleanup.callback(controller.release)
        settings = release.make_default_settings(1) | broker_settings.make_kraft_addresses(
            1, client_port=client.port, controller_ports={1: controller.port}
        )
        spec = BrokerSpec(
            node_id=1,
            folder=folder,
            runner=LocalRunner(jars),
            settings=settings | {"log.dirs": str(folder / "data")},
            jvm=(*java_server_process.TEST_JVM_FLAGS, flag),
            ready_text=release.ready_text.format(node_id=1),
        )
        training = KafkaBroker(spec)
        cleanup.callback(training.kill)
        try:
            broker_process.format_storage([training], cluster_id=broker_process.make_cluster_id())
            training.start()
        except SandboxError:
            return  # the next regular start of a broker fails in the same way and reports it
        training.stop(timeout_s=_STOP_TIMEOUT_S)
