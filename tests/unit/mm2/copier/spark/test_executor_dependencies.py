from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

from mm2.copier.spark import executor_dependencies

NOT_ON_EXECUTORS = (
    "pyspark",
    "confluent_kafka",
    "starlette",
    "cryptography",
    "yaml",
    "click",
    "rich",
)

PROGRAM = """
import importlib.abc, sys
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused!r}:
            raise ImportError(name + " is not on executors")
sys.meta_path.insert(0, Refuse())
sys.path.insert(0, {bundle!r})
import mm2
assert mm2.__file__.startswith({bundle!r}), mm2.__file__
import {module}
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return executor_dependencies.write_dependency_archive(
        tmp_path_factory.mktemp("bundle") / "mm2-copy.zip"
    )


def test_only_the_rooms_of_a_copy_travel(archive):
    names = zipfile.ZipFile(archive).namelist()
    assert "mm2/copier/spark/executor_job.py" in names
    assert "connect_runtime/network/tcp_and_tls_transport.py" in names
    tops = {"/".join(name.split("/")[:2]) for name in names}
    assert tops <= {
        *executor_dependencies.SHIPPED_PACKAGES,
        "mm2/__init__.py",
        "connect_runtime/__init__.py",
    }
    assert all(name.endswith(".py") for name in names)


def test_the_same_sources_make_the_same_bytes(archive, tmp_path):
    assert (
        executor_dependencies.write_dependency_archive(tmp_path / "again.zip").read_bytes()
        == archive.read_bytes()
    )


@pytest.mark.parametrize(
    "module",
    [
        "mm2.copier.spark.executor_job",
        "mm2.copier.control_channel_client",
        "mm2.copier.copy_process",
    ],
)
def test_a_copy_needs_nothing_that_executors_lack(archive, module):
    program = PROGRAM.format(refused=NOT_ON_EXECUTORS, bundle=str(archive), module=module)
    ran = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr


def test_the_check_above_would_notice(archive):
    program = PROGRAM.format(
        refused=NOT_ON_EXECUTORS, bundle=str(archive), module="mm2.copier.spark.driver"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert "is not on executors" in ran.stderr


def test_roots_hold_the_packages():
    assert all((root / "mm2").is_dir() for root in executor_dependencies.find_package_roots())
