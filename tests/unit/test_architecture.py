"""The map of the repository: who may import whom, how long a file may be, what has a test."""

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
FILE_LINES_MAX = 400
TEST_LINES_MAX = 650
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


def test_every_file_of_a_pure_room_has_its_unit_test():
    missing = [
        str(file.relative_to(ROOT))
        for file in sources(*PURE_ROOMS)
        if file.name != "__init__.py" and not _unit_test(file).exists()
    ]
    assert missing == []


def _unit_test(file: pathlib.Path) -> pathlib.Path:
    relative = file.relative_to(ROOT)
    return ROOT / "tests" / "unit" / relative.with_name(f"test_{relative.name}")


def test_files_stay_short():
    long = {
        str(file.relative_to(ROOT)): lines
        for folders, most in ((PACKAGES, FILE_LINES_MAX), (("tests",), TEST_LINES_MAX))
        for file in sources(*folders)
        if (lines := len(file.read_text().splitlines())) > most
    }
    assert long == {}


def test_packages_are_empty_and_modules_have_names():
    """But for those that others than us import as a whole: the plugin contract and the client."""
    for_users = {ROOT / "connect_runtime" / "api", ROOT / "mm2" / "client"}
    for file in sources(*PACKAGES):
        if file.name == "__init__.py" and file.parent not in for_users:
            assert file.read_text() == "", file
        assert file.stem not in VAGUE_NAMES, file


def test_unit_tests_belong_to_a_file():
    """To one of the same name, or to one whose name theirs begins with: `test_FILE_aspect.py`."""
    stray = [
        str(file.relative_to(ROOT))
        for package in PACKAGES
        for file in sources(f"tests/unit/{package}")
        if file.name.startswith("test_") and not _tested_files(file)
    ]
    assert stray == []


def _tested_files(file: pathlib.Path) -> list[pathlib.Path]:
    folder = ROOT / file.parent.relative_to(ROOT / "tests" / "unit")
    name = file.stem.removeprefix("test_")
    return [each for each in folder.glob("*.py") if f"{name}_".startswith(f"{each.stem}_")]
