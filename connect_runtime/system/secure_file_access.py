"""Safe file access: size-limited reads, private directories, and the user's cache directory.

In a directory that other users can write to, such as /tmp, another user may create a subdirectory
first and then read or redirect its content. Private directories are therefore created with access
for this user only, and an existing directory that other users can access is rejected.
"""

from __future__ import annotations

import errno
import functools
import grp
import os
import pwd
import shlex
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_MAX_SYMBOLIC_LINKS = 40
"""Maximum number of symbolic links that are followed in one path, as in Linux."""
_POSIX_ACL_ATTRIBUTE = "system.posix_acl_access"
_MAX_SEARCHED_FOLDERS = 100_000
"""Maximum number of folders that `find_untrusted_folder_writer` searches, because a symbolic link
may lead to a whole file system."""


def read_file_with_limit(file: Path, *, max_bytes: int, regular_only: bool = False) -> bytes:
    """Read a whole file of at most `max_bytes` bytes (a multiple of 1 MiB).

    Raises `OSError` if the file cannot be read, is larger, or is not a regular file, because a pipe
    or device may block or never end. Unless `regular_only` is set, a path below `/dev` or `/proc`
    may refer to a pipe, as a shell's `<(…)` does.
    """
    opened = _open_file_for_reading(file, regular_only=regular_only)
    try:
        return _read_descriptor(opened, max_bytes)
    finally:
        os.close(opened)


def read_file_and_find_untrusted_writer(
    file: Path, *, max_bytes: int
) -> tuple[bytes, UntrustedWriter | None]:
    """Read a whole file as `read_file_with_limit` does. Return its content, and the first untrusted
    user (neither this user nor root) found to be able to change it; None if there is none."""
    opened = _open_file_for_reading(file, regular_only=False)
    try:
        return _read_descriptor(opened, max_bytes), find_untrusted_file_writer(file, opened)
    finally:
        os.close(opened)


def _open_file_for_reading(file: Path, *, regular_only: bool) -> int:
    may_be_pipe = not regular_only and any(map(file.is_relative_to, ("/dev", "/proc")))
    opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | (0 if may_be_pipe else os.O_NONBLOCK))
    mode = os.fstat(opened).st_mode
    is_error_of_read = stat.S_ISDIR(mode) and not regular_only
    if not (stat.S_ISREG(mode) or may_be_pipe or is_error_of_read):
        os.close(opened)
        raise OSError(errno.EINVAL, "not a regular file")
    return opened


def read_user_owned_file(file: Path, *, max_bytes: int) -> bytes:
    """Read a regular file that belongs to this user or root. Raises `OSError` if the file cannot be
    opened (see `open_user_owned_file`) or is larger than `max_bytes`."""
    opened = open_user_owned_file(file, os.O_RDONLY)
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


def open_user_owned_file(file: Path, flags: int) -> int:
    """Open a regular file that belongs to this user or root, or create a file (`O_CREAT | O_EXCL`).
    Return its descriptor.

    The owner of a created file is not checked, because some network file systems change the owner
    of new files. Symbolic links are not followed, and pipes do not block. Raises `OSError` if the
    file cannot be opened, is not a regular file or belongs to another user.
    """
    try:
        opened = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "symbolic links are not followed") from error
        raise
    found = os.fstat(opened)
    is_own = bool(flags & os.O_EXCL) or found.st_uid in (0, os.geteuid())
    if stat.S_ISREG(found.st_mode) and is_own:
        return opened
    os.close(opened)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    raise OSError(errno.EPERM, f"is owned by user id {found.st_uid}, not by this user or root")


class DirectoryNotPrivateError(OSError):
    """Raised if another user could read or change the content of a directory."""


def ensure_private_directory(folder: Path) -> Path:
    """Create a directory with mode 0700, or check that an existing directory is private.

    Raises `DirectoryNotPrivateError` if it is not private, and `OSError`.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private_directory(folder, uid=os.geteuid())
    return folder


def check_private_directory(
    folder: Path, *, uid: int, root_may_use_foreign: bool = False, opened: int | None = None
) -> None:
    """Check that only the user `uid` can access the directory. `opened` is the directory's
    descriptor, if the directory is open.

    Raises `DirectoryNotPrivateError` if another user can access the directory, and `OSError` if it
    cannot be checked. If `root_may_use_foreign` is true, root may use another user's directory,
    unless every user can create directories in its parent directory.
    """
    found = folder.stat() if opened is None else os.fstat(opened)
    # The owner of a symbolic link can redirect it.
    foreign_owners = {found.st_uid, folder.lstat().st_uid} - {uid}
    may_be_foreign = root_may_use_foreign and uid == 0
    if foreign_owners and (not may_be_foreign or folder.parent.stat().st_mode & stat.S_IWOTH):
        raise DirectoryNotPrivateError(
            f"{folder} belongs to user id {min(foreign_owners)} instead of {uid}: remove it as root"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:  # after the owner, because only the owner can run chmod
        raise DirectoryNotPrivateError(
            f"{folder} must be accessible to its owner only: run chmod 700 "
            f"{shlex.quote(str(folder))}"
        )


def can_others_write(path: Path) -> bool:
    """Return whether a user other than the owner and root can change a file or directory.

    Write permission for a group is ignored if the group has this user's name and no other members.
    Raises `OSError`.
    """
    return _is_writable_by_others(path, path.stat())


def _is_writable_by_others(path: Path, found: os.stat_result) -> bool:
    if found.st_mode & stat.S_IWOTH:
        return True
    if not found.st_mode & stat.S_IWGRP:  # then no POSIX access control list lets users write
        return False
    return not _is_user_private_group(found.st_gid) or _has_access_control_list(path)


def _has_access_control_list(path: Path) -> bool:
    """Return whether a POSIX access control list can let further users and groups write."""
    try:
        return _POSIX_ACL_ATTRIBUTE in os.listxattr(path)
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return False
        raise


def is_trusted_directory(folder: Path) -> bool:
    """Return whether only this user or root can write to the directory. Raises `OSError`."""
    return folder.stat().st_uid in (0, os.geteuid()) and not can_others_write(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class UntrustedWriter:
    """An untrusted user (neither this user nor root) with permission to change a file."""

    path: Path
    """The file, or the directory or symbolic link through which the user can replace it."""
    owner: int | None
    """User id of the owner of `path`; None if the mode of `path` lets other users write."""


def find_untrusted_file_writer(file: Path, opened: int) -> UntrustedWriter | None:
    """Find an untrusted user (neither this user nor root) who can change or replace an open file.
    Returns None if there is none.

    `opened` is the descriptor of the file. The open file itself is checked, too, in case the file
    at the path was replaced after it was opened. Every directory and symbolic link on the path is
    checked. In a sticky directory, users cannot replace other users' files. A read-only mount
    counts as safe, and so does every file directly in it, whatever its owner and mode: Kubernetes
    mounts config maps as directories of mode 0777, and containers get files of the host's users.
    Raises `OSError`.
    """
    is_safe = False
    for path in _list_path_components(file.absolute()):
        is_safe = _is_read_only_mount(path) or (
            not os.path.ismount(path) and _is_read_only_mount(path.parent)
        )
        found = path.lstat()
        if not is_safe and (stat.S_ISDIR(found.st_mode) or stat.S_ISLNK(found.st_mode)):
            writer = _find_untrusted_writer_from_stat(path, found)
            if writer is not None:
                return writer
    return None if is_safe else _find_untrusted_writer_from_stat(file, os.fstat(opened))


def find_untrusted_folder_writer(folder: Path) -> UntrustedWriter | None:
    """Find an untrusted user (neither this user nor root) who can change or add files in a folder,
    its subfolders, or the folders to which symbolic links in them lead. Returns None if there is
    none.

    The path of the folder and the symbolic links in it are checked as in
    `find_untrusted_file_writer`. The content of a read-only mount counts as safe. Raises
    `FileNotFoundError` if the folder does not exist. Raises `OSError` if more than
    `_MAX_SEARCHED_FOLDERS` folders would have to be searched, or if a folder cannot be read.
    """
    pending = [folder]
    searched: set[Path] = set()
    while pending:
        root = pending.pop()
        writer = _find_untrusted_path_writer(root)
        if writer is not None:
            return writer
        for parent, folders, files in os.walk(root.resolve()):
            current = Path(parent)
            if current in searched or _is_read_only_mount(current):
                folders.clear()  # makes os.walk skip the subfolders
                continue
            searched.add(current)
            if len(searched) > _MAX_SEARCHED_FOLDERS:
                raise OSError(errno.EFBIG, f"more than {_MAX_SEARCHED_FOLDERS:,} folders")
            writer = _find_untrusted_folder_entry_writer(current, (*folders, *files), pending)
            if writer is not None:
                return writer
    return None


def _find_untrusted_folder_entry_writer(
    folder: Path, names: Iterable[str], linked_folders: list[Path]
) -> UntrustedWriter | None:
    """Find an untrusted user who can change a folder or an entry of it, without its subfolders.
    Symbolic links to folders are appended to `linked_folders`."""
    if can_others_write(folder):  # even in a sticky folder, users can add files
        return UntrustedWriter(path=folder, owner=None)
    for name in names:
        path = folder / name
        try:
            found = path.lstat()
            is_read_only = stat.S_ISDIR(found.st_mode) and _is_read_only_mount(path)
            writer = None if is_read_only else _find_untrusted_writer_from_stat(path, found)
            if writer is None and stat.S_ISLNK(found.st_mode) and os.path.exists(path):
                if path.is_dir():
                    linked_folders.append(path)
                else:
                    writer = _find_untrusted_path_writer(path)
        except FileNotFoundError:
            continue  # removed just now, such as a temporary file in __pycache__
        if writer is not None:
            return writer
    return None


def _find_untrusted_path_writer(path: Path) -> UntrustedWriter | None:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return find_untrusted_file_writer(path, opened)
    finally:
        os.close(opened)


def _find_untrusted_writer_from_stat(path: Path, found: os.stat_result) -> UntrustedWriter | None:
    if found.st_uid not in (0, os.geteuid()):
        return UntrustedWriter(path=path, owner=found.st_uid)
    is_link = stat.S_ISLNK(found.st_mode)  # its owner can redirect it, its mode says nothing
    is_sticky = stat.S_ISDIR(found.st_mode) and bool(found.st_mode & stat.S_ISVTX)
    if not is_link and not is_sticky and _is_writable_by_others(path, found):
        return UntrustedWriter(path=path, owner=None)
    return None


def _list_path_components(file: Path) -> Iterator[Path]:
    """List the directories and symbolic links on an absolute path, from the root to the file.

    Each component is yielded before the next one is looked up. If the caller has found a component
    trustworthy, no untrusted user can replace the next component afterwards.
    """
    current, pending = Path(file.anchor), [*reversed(file.parts[1:])]
    yield current
    links = 0
    while pending:
        name = pending.pop()
        current = current.parent if name == ".." else current / name
        yield current
        if not current.is_symlink():
            continue
        target = current.parent / current.readlink()
        if current.is_relative_to("/proc") and not os.path.lexists(target):
            return  # an open pipe or deleted file, such as pipe:[123]
        links += 1
        if links > _MAX_SYMBOLIC_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        current = Path(target.anchor)
        pending += reversed(target.parts[1:])


def _is_read_only_mount(path: Path) -> bool:
    """Return whether a file or directory is itself a mount point that is mounted read-only.

    A read-only file system that contains the path is not sufficient. With systemd's
    `ProtectSystem=`, a service sees such a file system although other users can write to it.
    """
    return os.path.ismount(path) and bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _is_user_private_group(group_id: int) -> bool:
    """Return whether the group has this user's name and no other members, including accounts whose
    primary group it is."""
    user_id = os.geteuid()
    try:
        group = grp.getgrgid(group_id)
        has_own_name = group.gr_name == pwd.getpwuid(user_id).pw_name
    except KeyError:
        return False
    minute = int(time.monotonic() // 60)
    return (
        has_own_name and not group.gr_mem and _list_primary_members(group_id, minute) <= {user_id}
    )


@functools.lru_cache(maxsize=16)
def _list_primary_members(group_id: int, _minute: int) -> frozenset[int]:
    """Return the ids of the users whose primary group it is.

    A directory service may take seconds to list all accounts, and a folder contains thousands of
    files. The result is therefore cached until the minute changes.
    """
    return frozenset(user.pw_uid for user in pwd.getpwall() if user.pw_gid == group_id)


def find_user_cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the cache directory: `$MM2_CACHE`, else `$XDG_CACHE_HOME/mm2`, else
    `~/.cache/mm2`. The directory might not exist yet.

    Raises `OSError`; see `_find_home_directory`.
    """
    if environ.get("MM2_CACHE"):
        return Path(environ["MM2_CACHE"]).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME")
    return (
        Path(base).expanduser().absolute() if base else _find_home_directory() / ".cache"
    ) / "mm2"


def _find_home_directory() -> Path:
    """Return the home directory, or a private temporary directory if the user id has no account.

    Containers may run with such user ids. Raises `DirectoryNotPrivateError` if another user created
    the temporary directory.
    """
    try:
        return Path.home()
    except RuntimeError:
        return ensure_private_directory(Path(tempfile.gettempdir()) / f"mm2-home-{os.geteuid()}")
