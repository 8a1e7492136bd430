"""The class-data archive fits the Java and the jars that it was made for."""

from __future__ import annotations

import subprocess

import pytest

from mm2.sandbox import java_class_archive, java_server_process, kafka_jars

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    "collector",
    [java_server_process.TEST_JVM_FLAGS, java_server_process.BENCH_JVM_FLAGS],
    ids=["test", "bench"],
)
def test_java_accepts_the_archive(collector):
    """With `-Xshare:on` a Java that cannot use the archive refuses to start."""
    jars = kafka_jars.ensure_jars()
    flags = (*collector, *java_class_archive.ensure_class_archive(jars), "-Xshare:on")

    done = subprocess.run(
        java_server_process.make_java_command("kafka.Kafka", "--version", jars=jars, flags=flags),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert any(flag.startswith("-XX:SharedArchiveFile=") for flag in flags)
    assert done.returncode == 0, done.stderr
    assert "4.3.1" in done.stdout


def test_it_is_made_once_for_each_set_of_jars(tmp_path):
    """A cache of its own, filled with links: made there, then used as it is."""
    jars = kafka_jars.ensure_jars()
    (tmp_path / jars.name).mkdir()
    for jar in jars.iterdir():
        (tmp_path / jars.name / jar.name).hardlink_to(jar)
    own = kafka_jars.ensure_jars(cache=tmp_path)
    stale = tmp_path / f"{jars.name}.000000000000.000000000000.jsa"
    stale.touch()

    first = java_class_archive.ensure_class_archive(own)
    (made,) = tmp_path.glob("*.jsa")
    changed = made.stat()
    second = java_class_archive.ensure_class_archive(own)

    assert first == second == (f"-XX:SharedArchiveFile={made}",)
    assert made.stat() == changed
    assert made.stat().st_size > 10_000_000
