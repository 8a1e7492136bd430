"""Safe file access: size-limited reads, folders that only this user can write to, the user's cache.

In a place that others can write to, such as /tmp, another user may create a folder first and
read or redirect what is put there. Such folders are created for this user alone, or rejected.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path


def read_bounded(file: Path, *, most: int, regular: bool = False) -> bytes:
    """All of it. Raises `OSError`, also for more than `most` bytes, which are whole MiB.

    `regular`: what may hold a reader up, or never end, such as a pipe or a device, raises, too.
    """
    opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | (os.O_NONBLOCK if regular else 0))
    try:
        if regular and not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        with os.fdopen(opened, "rb", closefd=False) as stream:
            data = stream.read(most + 1)
    finally:
        os.close(opened)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MB")
    return data


class ForeignFolderError(OSError):
    """Another user could read or change what is in the folder."""


def ensure_private(folder: Path) -> Path:
    """Make it, with mode 0700, unless it exists. Raises `ForeignFolderError`, or `OSError`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(folder, uid=os.geteuid())
    return folder


def check_private(folder: Path, *, uid: int, by_root: bool = False) -> None:
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


def find_user_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """`$MM2_CACHE`, else `$XDG_CACHE_HOME/mm2`, else `~/.cache/mm2`; it need not be there.

    Raises `OSError` as `_find_home`.
    """
    if environ.get("MM2_CACHE"):
        return Path(environ["MM2_CACHE"]).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser().absolute() if base else _find_home() / ".cache") / "mm2"


def _find_home() -> Path:
    """A user id that the system has no name for, as containers may be given, has no home. Raises
    `ForeignFolderError` where another user made the one that it is given."""
    try:
        return Path.home()
    except RuntimeError:
        return ensure_private(Path(tempfile.gettempdir()) / f"mm2-home-{os.geteuid()}")
