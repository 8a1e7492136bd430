"""The documentation is built as a site, and a broken link fails the build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def build(project: Path, site: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)],
        cwd=project,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_site_is_built_without_a_broken_link(tmp_path):
    code, said = build(ROOT, tmp_path)
    assert code == 0, said
    for page in (
        "index.html",
        "guides/first-mirror.html",
        "decisions/delivery.html",
        "repository/CONTRIBUTING.html",
        "repository/deploy/runbooks/Mm2LagHigh.html",
        "repository/deploy/clusters.yaml",
        "guides/pictures/status-page.png",
    ):
        assert (tmp_path / page).is_file(), page
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize(
    ("link", "told"),
    [
        ("[there](other.md#a-heading) and [out](../LICENSE), [folder](../deploy)", ""),
        ("[gone](gone.md)", "gone.md"),
        ("[no such heading](other.md#nowhere)", "nowhere"),
        ("[outside](../deploy/gone.yaml)", "gone.yaml"),
        ("![picture](gone.png)", "gone.png"),
        ("[absolute](/etc/passwd)", "/etc/passwd"),
    ],
)
def test_a_broken_link_fails_the_build(tmp_path, link, told):
    docs = tmp_path / "docs"
    (docs / "site").mkdir(parents=True)
    (tmp_path / "deploy").mkdir()
    (tmp_path / "LICENSE").write_text("free\n")
    (tmp_path / "mkdocs.yml").write_text(SETTINGS[: SETTINGS.index("\nnav:")])
    (docs / "site" / "hooks.py").write_bytes((ROOT / "docs" / "site" / "hooks.py").read_bytes())
    (docs / "README.md").write_text(f"# A page\n\n{link}\n")
    (docs / "other.md").write_text("# Other\n\n## A heading\n\nText.\n")
    code, said = build(tmp_path, tmp_path / "out")
    assert (code != 0) is bool(told), said
    assert told in said
