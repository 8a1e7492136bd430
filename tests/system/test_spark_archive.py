from __future__ import annotations

import os
import subprocess

import pytest

from mm2.pipeline.spark import jvm
from tests.support import spark_archive

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]  # it may have to be made


def test_a_driver_uses_the_archive():
    """With `-Xshare:on` a Java that cannot use it refuses to start."""
    path = spark_archive.archive()
    assert path is not None, "this Java makes archives"
    options = f"-XX:SharedArchiveFile={path} -Xshare:on -Xlog:class+load"

    done = subprocess.run(
        [str(jvm.spark_home() / "bin" / "spark-submit"), "--version"],
        env=os.environ | {spark_archive.OPTIONS: options},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    name = " org.apache.spark.deploy.SparkSubmit "
    (loaded,) = (line for line in done.stdout.splitlines() if name in line)
    assert "shared objects file (top)" in loaded
