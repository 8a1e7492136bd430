"""Folders in places that others can write to, such as /tmp: made for this user alone, or refused.

Whoever guesses the name of such a folder can make it first, and read or redirect what is put there.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path


class ForeignFolderError(OSError):
    """Another user could read or change what is in the folder."""


def ensure_private(folder: Path) -> Path:
    """Make it, with mode 0700, unless it exists. Raises `ForeignFolderError`, or `OSError`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check(folder, uid=os.geteuid())
    return folder


def check(folder: Path, *, uid: int, by_root: bool = False) -> None:
    """Raises `ForeignFolderError` unless it is that user's alone, and `OSError`.

    `by_root`: root may use a folder of another user, but not where anybody could have made one of
    that name.
    """
    found = folder.stat()
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise ForeignFolderError(
            f"{folder} must be accessible to its owner only: run chmod 700 {folder}"
        )
    owners = {found.st_uid, folder.lstat().st_uid}  # a link is as good as who made it
    if owners == {uid}:
        return
    if not (by_root and uid == 0) or folder.parent.stat().st_mode & stat.S_IWOTH:
        other = min(owners - {uid})
        raise ForeignFolderError(f"{folder} belongs to user id {other} instead of {uid}: remove it")


def others_can_write(path: Path) -> bool:
    """Could a user other than its owner and root change a folder or a file? A group that has this
    user's own name and no other members is nobody else. Raises `OSError`."""
    found = path.stat()
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_own_group(found.st_gid)


def is_trusted(folder: Path) -> bool:
    """Is what is in it from this user, or from root? Raises `OSError`."""
    return folder.stat().st_uid in (0, os.geteuid()) and not others_can_write(folder)


def _is_own_group(group_id: int) -> bool:
    try:
        group = grp.getgrgid(group_id)
        return group.gr_name == pwd.getpwuid(os.geteuid()).pw_name and not group.gr_mem
    except KeyError:
        return False
