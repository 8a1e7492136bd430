"""A class-data archive for the JVMs of the sandbox: brokers start a second sooner with it.

It is made once for each Java and set of jars, from a broker that starts and stops (five seconds),
and kept beside the jars. A JVM ignores an archive that does not fit, and everything works without.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from connect_runtime.system import java
from mm2.sandbox import (
    artefacts,
    broker,
    failures,
    jvm,
    ports,
    properties,
    releases,
    runners,
    storage,
)

_STOP_TIMEOUT_S = 60.0


def flags(jars: Path, release: releases.Release = releases.NEWEST) -> tuple[str, ...]:
    """JVM flags for programs that run from `jars`; makes the archive if there is none yet.

    Brokers with a ZooKeeper do without: they are up in little more than a second.
    """
    if release.zookeeper:
        return ()
    path = _path(jars)
    try:
        if not path.exists():
            with artefacts.locked(path.with_suffix(".lock"), say=artefacts.to_stderr):
                if not path.exists():
                    _make(path, jars, release=release)
        return (f"-XX:SharedArchiveFile={path}",) if path.stat().st_size else ()
    except OSError:
        return ()  # a cache that cannot be written to


def _path(jars: Path) -> Path:
    """Named after the jars' sizes and times and after the Java, both of which the JVM checks."""
    stamp = jars.with_name(jars.name + ".verified")
    jars_key = hashlib.sha256(stamp.read_bytes() if stamp.exists() else b"").hexdigest()[:12]
    found = java.find()
    java_key = hashlib.sha256(f"{found.program}\n{found.banner}".encode()).hexdigest()[:12]
    return jars.with_name(f"{jars.name}.{jars_key}.{java_key}.jsa")


def _make(path: Path, jars: Path, *, release: releases.Release) -> None:
    jars_key = path.name.removeprefix(jars.name + ".").split(".")[0]
    for old in path.parent.glob(f"{jars.name}.*.jsa"):
        if not old.name.startswith(f"{jars.name}.{jars_key}."):
            old.unlink()
    work = Path(tempfile.mkdtemp(prefix=".classes-", dir=path.parent))
    try:
        fresh = work / "archive.jsa"
        flag = f"-XX:ArchiveClassesAtExit={fresh}"
        _run_broker(work / "broker-1", jars, release=release, flag=flag)
        if not fresh.exists():
            fresh.touch()  # this Java makes none: remembered as an empty file
        fresh.replace(path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_broker(folder: Path, jars: Path, *, release: releases.Release, flag: str) -> None:
    with ExitStack() as cleanup:
        client, controller = (ports.reserve() for _ in range(2))
        cleanup.callback(client.release)
        cleanup.callback(controller.release)
        settings = release.defaults(1) | properties.addresses(
            1, client_port=client.port, controller_ports={1: controller.port}
        )
        spec = broker.BrokerSpec(
            node_id=1,
            folder=folder,
            runner=runners.Here(jars),
            settings=settings | {"log.dirs": str(folder / "data")},
            jvm=(*jvm.TEST_FLAGS, flag),
            serving=release.serving.format(node_id=1),
        )
        training = broker.Broker(spec)
        cleanup.callback(training.kill)
        try:
            storage.format_all([training], cluster_id=storage.new_cluster_id())
            training.start()
        except failures.SandboxError:
            return  # whoever starts a broker next meets the same, and says so
        training.stop(timeout_s=_STOP_TIMEOUT_S)
