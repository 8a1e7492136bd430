"""What systemd itself says of the unit."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.support import debian_tools
from tests.support.deployed import image

UNIT = image.DEPLOY / "systemd" / "mm2.service"
EXPOSURE_MAX = 2.0


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [debian_tools.path("systemd-analyze"), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60.0,
        check=False,
    )


def verified(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Commands have to be there for it: any will do."""
    (folder / "mm2.service").write_text(text.replace("/opt/mm2/bin/mm2", "/bin/true"))
    return analyze("verify", folder / "mm2.service")


def test_systemd_takes_the_unit(tmp_path):
    done = verified(UNIT.read_text(), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_says_what_it_does_not_know(tmp_path):
    done = verified(UNIT.read_text().replace("KillMode=mixed", "KillMod=mixed"), tmp_path)
    assert "KillMod" in done.stderr


def test_little_is_left_that_it_may_do():
    done = analyze("security", "--offline=true", UNIT)
    found = re.search(r"exposure level for mm2.service: ([0-9.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert float(found[1]) <= EXPOSURE_MAX
