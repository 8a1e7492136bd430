from __future__ import annotations

import grp
import os
import pwd

import pytest

from connect_runtime.system import private_folder


def test_it_is_made_for_this_user_alone(tmp_path):
    folder = tmp_path / "a" / "b"
    assert private_folder.ensure_private(folder) == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    assert private_folder.ensure_private(folder) == folder


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_one_that_others_can_enter_is_refused(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(private_folder.ForeignFolderError, match=f"chmod 700 {tmp_path}"):
        private_folder.ensure_private(tmp_path)


def test_one_of_another_user_is_refused_also_behind_a_link(tmp_path):
    tmp_path.chmod(0o700)
    with pytest.raises(private_folder.ForeignFolderError, match="belongs to user id"):
        private_folder.check(tmp_path, uid=os.geteuid() + 1)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    private_folder.check(link, uid=os.geteuid())
    if os.geteuid() == 0:  # nobody else may give a link away
        os.chown(link, 4242, -1, follow_symlinks=False)
        with pytest.raises(private_folder.ForeignFolderError, match="belongs to user id 4242"):
            private_folder.check(link, uid=0)


@pytest.mark.parametrize(
    ("mode", "written"), [(0o700, False), (0o755, False), (0o757, True), (0o1777, True)]
)
def test_who_can_write(tmp_path, mode, written):
    tmp_path.chmod(mode)
    assert private_folder.others_can_write(tmp_path) is written


def test_a_group_counts_unless_it_is_the_users_own(tmp_path, monkeypatch):
    tmp_path.chmod(0o775)
    name = pwd.getpwuid(os.geteuid()).pw_name

    class Group:
        gr_name = name
        gr_mem: list[str] = []  # noqa: RUF012 - as in `grp`

    monkeypatch.setattr(grp, "getgrgid", lambda _: Group)
    assert not private_folder.others_can_write(tmp_path)
    Group.gr_mem = ["another"]
    assert private_folder.others_can_write(tmp_path)
    Group.gr_name, Group.gr_mem = "staff", []
    assert private_folder.others_can_write(tmp_path)


def test_only_folders_of_this_user_and_root_are_trusted(tmp_path, monkeypatch):
    tmp_path.chmod(0o755)
    assert private_folder.is_trusted(tmp_path)
    tmp_path.chmod(0o757)
    assert not private_folder.is_trusted(tmp_path)
    tmp_path.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert private_folder.is_trusted(tmp_path) is (tmp_path.stat().st_uid == 0)
