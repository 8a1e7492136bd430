"""The unit runs commands that there are, with as few rights as will do, and ends as mm2 ends."""

from __future__ import annotations

import re

import pytest

from tests.support.deployed import image, unit_file

TEXT = (image.DEPLOY / "systemd" / "mm2.service").read_text()


def test_ours_is_right():
    assert unit_file.wrong(unit_file.read(TEXT)) == []


@pytest.mark.parametrize(
    ("line", "instead", "told"),
    [
        ("ExecStart=.*", "ExecStart=/opt/mm2/bin/mm2 start clusters.yaml", "No such command"),
        ("ExecStart=.*", "ExecStart=/bin/mm2 run clusters.yaml", "in /opt/mm2"),
        ("ExecReload=.*", "ExecReload=/opt/mm2/bin/mm2 reload other.yaml", "another file"),
        ("WorkingDirectory=.*", "WorkingDirectory=/", "WorkingDirectory"),
        ("Restart=on-failure", "Restart=no", "Restart=on-failure"),
        ("RestartPreventExitStatus=2", "", "wrong file"),
        ("SuccessExitStatus=143", "", "is no failure"),
        ("KillMode=mixed", "KillMode=control-group", "KillMode"),
        ("TimeoutStopSec=45", "TimeoutStopSec=5", "in flight"),
        ("User=mm2", "User=root", "runs as root"),
        ("ProtectSystem=strict", "ProtectSystem=full", "write everywhere"),
        ("CapabilityBoundingSet=", "CapabilityBoundingSet=CAP_KILL", "rights of root's"),
        ("NoNewPrivileges=yes", "NoNewPrivileges=no", "NoNewPrivileges"),
        ("UMask=.*", "MemoryDenyWriteExecute=yes", "Java compiles"),
        ("Environment=MM2_CACHE.*", "", "MM2_CACHE"),
        ("Environment=MM2_RUN_DIR.*", "", "MM2_RUN_DIR"),
        ("StateDirectoryMode=0700", "", "StateDirectory"),
    ],
)
def test_what_is_wrong_is_seen(line, instead, told):
    changed, count = re.subn(f"^{line}$", instead, TEXT, count=1, flags=re.MULTILINE)
    assert count == 1
    found = unit_file.wrong(unit_file.read(changed))
    assert any(told in each for each in found), found
