"""Import contracts: which package may import which, and that a violation is found."""

from __future__ import annotations

import configparser
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGES = ("connect_runtime", "mm2")
PURE_ROOMS = (
    "connect_runtime/base",
    "connect_runtime/api",
    "connect_runtime/core",
    "connect_runtime/wire/codec",
    "mm2/core",
    "mm2/formats",
)
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}

# One violation for each contract: the module that gets an import it must not have.
VIOLATIONS: Mapping[str, tuple[str, str]] = {
    "connect_runtime never imports mm2": ("connect_runtime/system/threads.py", "mm2.core.naming"),
    "connect_runtime: lower layers never import upper ones; siblings never meet": (
        "connect_runtime/base/ids.py",
        "connect_runtime.adapters.config.yaml_source",
    ),
    "wire: the pure codec never sees the sockets": (
        "connect_runtime/wire/codec/frames.py",
        "connect_runtime.wire.connection.poller",
    ),
    "connect_runtime.core: the herder decides from assignments, these from state": (
        "connect_runtime/core/state/skipped.py",
        "connect_runtime.core.assignment.work",
    ),
    "the plugin contract needs the basics alone, and plugins the contract": (
        "connect_runtime/api/grouping.py",
        "connect_runtime.system.polling",
    ),
    "the worker itself and its plugins know nothing of the Kafka library": (
        "connect_runtime/ports/group.py",
        "connect_runtime.kafka_client.errors",
    ),
    "mm2: lower layers never import upper ones; siblings never meet": (
        "mm2/core/naming.py",
        "mm2.cluster.admin",
    ),
    "mm2.connectors: who hands out knows who copies, never the other way": (
        "mm2/connectors/share/holdups.py",
        "mm2.connectors.source.source_watch",
    ),
    "mm2.app: larger commands do not know each other": (
        "mm2/app/looks/identities.py",
        "mm2.app.failover.hooks",
    ),
    "the pure rooms import nothing that waits, sleeps or talks": (
        "mm2/core/filters.py",
        "threading",
    ),
    "below mm2.app only the public rooms of connect_runtime are visible": (
        "mm2/cluster/admin.py",
        "connect_runtime.adapters.config.yaml_source",
    ),
    "each library has its home": ("mm2/core/flows.py", "pyspark"),
}


def sources(*folders: str) -> list[pathlib.Path]:
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def lint_imports(folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.path.insert(0, '.'); from importlinter.cli import "
            "lint_imports_command as c; c()",
            "--no-cache",
            "--no-logo",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def copy(tmp_path: pathlib.Path) -> pathlib.Path:
    """Both packages and the contracts, to do wrong with."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


@pytest.mark.judges  # `make check` asks the same itself
def test_imports_keep_to_the_map():
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.judges
def test_each_contract_breaks_where_it_should(copy):
    for file, module in VIOLATIONS.values():
        with (copy / file).open("a") as stream:
            stream.write(f"\nimport {module}\n")
    done = lint_imports(copy)
    kept = [name for name in VIOLATIONS if f"{name} BROKEN" not in done.stdout]
    assert not kept, done.stdout + done.stderr
    assert "0 kept" in done.stdout, "a contract has no planted violation here"


@pytest.mark.judges
def test_a_folder_that_is_on_no_layer_is_refused(copy):
    folders = ["connect_runtime/toolbox", "connect_runtime/wire/toolbox", "mm2/toolbox"]
    for folder in folders:
        (copy / folder).mkdir()
        (copy / folder / "__init__.py").touch()
    done = lint_imports(copy)
    assert done.returncode != 0
    for folder in folders:
        assert folder.replace("/", ".") in done.stdout


def test_contracts_know_every_room():
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")

    def listed(contract: str, field: str) -> set[str]:
        return set(contracts[f"importlinter:contract:{contract}"][field].split())

    pure = {room.replace("/", ".") for room in PURE_ROOMS if (ROOT / room).exists()}
    assert listed("sans-io", "source_modules") == pure
    hidden = rooms("connect_runtime") - {
        f"connect_runtime.{room}" for room in ("base", "api", "wire", "kafka_client", "system")
    }
    assert listed("mm2-sees-the-public-rooms", "forbidden_modules") == hidden
    below = rooms("mm2") - {"mm2.app"}
    assert listed("mm2-sees-the-public-rooms", "source_modules") == below


def rooms(package: str) -> set[str]:
    return {f"{package}.{init.parent.name}" for init in (ROOT / package).glob("*/__init__.py")}


def test_modules_have_names_that_say_something():
    vague = [str(file) for file in sources(*PACKAGES) if file.stem in VAGUE_NAMES]
    assert vague == []
