"""In CI no test may skip, but those for Docker: run by a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.judges

ROOT = Path(__file__).parents[3]

_SKIPPING = """
import pytest
pytestmark = pytest.mark.{marker}
def test_skips():
    pytest.skip("no broker")
@pytest.mark.xfail(reason="known")
def test_expected_failure():
    assert False
"""
_WITHOUT_TOOL = """
from tests.support import debian_tools
def test_needs_a_command(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    debian_tools.path("promtool")
def test_needs_another(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    debian_tools.path("chromedriver")
def test_needs_none():
    assert True
"""
_SKIPPED_MODULE = "import pytest\npytest.skip('no broker', allow_module_level=True)\n"


def _run(folder: Path, source: str, *, ci: str) -> str:
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "test_it.py").write_text(source)
    markers = "".join(f"    {name}: x\n" for name in ("integration", "other", "docker"))
    (folder / "pytest.ini").write_text(f"[pytest]\nmarkers =\n{markers}")
    # Without a cache that can be written to, nothing is fetched or started here.
    environ = os.environ | {"CI": ci, "PYTHONPATH": str(ROOT), "JAVA_HOME": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        env=environ | {"MM2_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("marker", "ci", "outcome"),
    [
        ("integration", "true", "1 failed, 1 xfailed"),
        ("integration", "", "1 skipped, 1 xfailed"),
        ("other", "true", "1 failed, 1 xfailed"),
        ("docker", "true", "1 skipped, 1 xfailed"),
    ],
)
def test_a_skip_fails_in_ci_unless_it_wants_docker(tmp_path, marker, ci, outcome):
    output = _run(tmp_path, _SKIPPING.format(marker=marker), ci=ci)

    assert outcome in output
    assert ("counts as a failure" in output) == (outcome[2:8] == "failed")


def test_a_module_that_skips_itself_fails_in_ci(tmp_path):
    assert "1 error" in _run(tmp_path, _SKIPPED_MODULE, ci="true")
    assert "1 skipped" in _run(tmp_path, _SKIPPED_MODULE, ci="")


def test_what_lacks_a_package_is_left_out_and_told_with_the_command(tmp_path):
    output = _run(tmp_path, _WITHOUT_TOOL, ci="")

    assert "1 passed, 2 skipped" in output
    assert "2 tests were left out for want of Debian packages. To have them run:" in output
    assert "apt-get install -y --no-install-recommends chromium-driver prometheus" in output


def test_what_lacks_a_package_fails_in_ci(tmp_path):
    output = _run(tmp_path, _WITHOUT_TOOL, ci="true")

    assert "2 failed, 1 passed" in output
    assert "needs the Debian package prometheus: apt-get install" in output
