"""Safe file access: size-limited reads, private folders, and the user's cache folder.

In a folder that other users can write to, such as /tmp, another user may create a subfolder first
and then read or redirect its content. Private folders are created only for this user, or rejected.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


def read_bounded(file: Path, *, max_bytes: int, regular_only: bool = False) -> bytes:
    """Read a whole file. Raises `OSError`, including for more than `max_bytes` bytes (whole MiB).

    `regular_only` also raises `OSError` if the file is not regular, because a pipe or a device may
    block or be endless.
    """
    opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | (os.O_NONBLOCK if regular_only else 0))
    try:
        if regular_only and not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return _read_descriptor(opened, max_bytes)
    finally:
        os.close(opened)


def read_own(file: Path, *, max_bytes: int) -> bytes:
    """Read a regular file of this user or root, as `open_own` and `read_bounded` do."""
    opened = open_own(file, os.O_RDONLY)
    try:
        return _read_descriptor(opened, max_bytes)
    finally:
        os.close(opened)


def _read_descriptor(opened: int, max_bytes: int) -> bytes:
    with os.fdopen(opened, "rb", closefd=False) as stream:
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"larger than {max_bytes >> 20} MiB")
    return data


def open_own(file: Path, flags: int) -> int:
    """Open a regular file of this user or root, or create a file (`O_CREAT | O_EXCL`). Return its
    descriptor.

    The owner of a created file is not checked, because some network file systems map it to another
    user. Symbolic links are not followed, and pipes do not block. Raises `OSError`, including for
    other kinds of files and other owners.
    """
    try:
        opened = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "a symbolic link, which is not followed") from error
        raise
    found = os.fstat(opened)
    is_own = bool(flags & os.O_EXCL) or found.st_uid in (0, os.geteuid())
    if stat.S_ISREG(found.st_mode) and is_own:
        return opened
    os.close(opened)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    raise OSError(errno.EPERM, f"is owned by user id {found.st_uid}, not by this user or root")


class ForeignFolderError(OSError):
    """Another user could read or change the content of a folder."""


def ensure_private(folder: Path) -> Path:
    """Create a folder with mode 0700, or check that an existing folder is private.

    Raises `ForeignFolderError` if it is not private, and `OSError`.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(folder, uid=os.geteuid())
    return folder


def check_private(folder: Path, *, uid: int, root_may_use_foreign: bool = False) -> None:
    """Check that only the user `uid` can access the folder.

    Raises `ForeignFolderError` if another user can, and `OSError`. `root_may_use_foreign` lets root
    use another user's folder, unless every user can create folders in its parent folder.
    """
    found = folder.stat()
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise ForeignFolderError(
            f"{folder} must be accessible to its owner only: run chmod 700 {folder}"
        )
    owners = {found.st_uid, folder.lstat().st_uid}  # the owner of a symbolic link can redirect it
    if owners == {uid}:
        return
    if not (root_may_use_foreign and uid == 0) or folder.parent.stat().st_mode & stat.S_IWOTH:
        other = min(owners - {uid})
        raise ForeignFolderError(f"{folder} belongs to user id {other} instead of {uid}: remove it")


def others_can_write(path: Path) -> bool:
    """Return whether a user other than the owner and root can change a file or folder.

    A group that has this user's name and no other members counts as the user. Raises `OSError`.
    """
    found = path.stat()
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_own_group(found.st_gid)


def is_trusted(folder: Path) -> bool:
    """Return whether only this user or root can write to the folder. Raises `OSError`."""
    return folder.stat().st_uid in (0, os.geteuid()) and not others_can_write(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignWriter:
    """A user other than this user and root who can change a file."""

    path: Path
    """The file, or the folder in which the user can replace it."""
    owner: int | None
    """User id of the owner of `path`; None if other users can write because of its mode."""


def find_foreign_writer(file: Path) -> ForeignWriter | None:
    """Find a user other than this user and root who can change or replace a file.

    Returns None if no other user can. Checks the file, its folder and the folder of a symbolic
    link's target. In a sticky folder, other users cannot replace the file. A read-only mount and
    the files directly in it count as safe, whatever their owner and mode, because Kubernetes mounts
    config maps as folders of mode 0777, and files in containers may be owned by the host's users.
    Raises `OSError`.
    """
    for path in dict.fromkeys((file, file.absolute().parent, Path(os.path.realpath(file)).parent)):
        if _is_read_only_mount(path) or _is_read_only_mount(path.absolute().parent):
            continue
        found = path.stat()
        owners = {found.st_uid, path.lstat().st_uid}  # the owner of a symbolic link can redirect it
        foreign = owners - {0, os.geteuid()}
        if foreign:
            return ForeignWriter(path=path, owner=min(foreign))
        is_sticky = stat.S_ISDIR(found.st_mode) and bool(found.st_mode & stat.S_ISVTX)
        if others_can_write(path) and not is_sticky:
            return ForeignWriter(path=path, owner=None)
    return None


def _is_read_only_mount(path: Path) -> bool:
    """Return whether a file or folder is itself a mount point that is mounted read-only.

    A read-only file system that contains the path is not sufficient. With systemd's
    `ProtectSystem=`, a service sees such a file system although other users can write to it.
    """
    return os.path.ismount(path) and bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _is_own_group(group_id: int) -> bool:
    try:
        group = grp.getgrgid(group_id)
        return group.gr_name == pwd.getpwuid(os.geteuid()).pw_name and not group.gr_mem
    except KeyError:
        return False


def find_user_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `$MM2_CACHE`, else `$XDG_CACHE_HOME/mm2`, else `~/.cache/mm2`. The folder may not
    exist.

    Raises `OSError`; see `_find_home`.
    """
    if environ.get("MM2_CACHE"):
        return Path(environ["MM2_CACHE"]).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser().absolute() if base else _find_home() / ".cache") / "mm2"


def _find_home() -> Path:
    """Return the home folder, or a private temporary folder if the user id has no account.

    Containers may run with such user ids. Raises `ForeignFolderError` if another user created the
    temporary folder.
    """
    try:
        return Path.home()
    except RuntimeError:
        return ensure_private(Path(tempfile.gettempdir()) / f"mm2-home-{os.geteuid()}")
