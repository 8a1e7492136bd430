"""Restricts the FileStream connectors to files under the worker's `file.stream.allowed.paths`.

Connector configurations come over the REST API: without this check its users could read and write
every file that the worker's user can. Symbolic links are resolved before paths are compared. Only
regular files with one name, and the null device, are opened: hard links would bypass the check,
and opening a pipe can block forever.
"""

from __future__ import annotations

import os
import pathlib
import stat
from collections.abc import Iterable
from typing import TypeVar

from connect_runtime.api.config_def import ConfigValue
from connect_runtime.api.errors import ConfigError

FILE_CONFIG = "file"
ALLOWED_PATHS_CONFIG = "file.stream.allowed.paths"
"""The worker's property."""

_Class = TypeVar("_Class", bound=type)


class AllowedPaths:
    """A file may be used if it is one of `paths`, or under one of them; without any none may."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._paths = tuple(pathlib.Path(os.path.realpath(each)) for each in paths)

    def check(self, name: str) -> str:
        """The real path of a file that may be used. Raises `ConfigError`."""
        try:
            real = os.path.realpath(name)
            os.fsencode(real)
        except ValueError as error:  # a NUL, or half of a character
            raise ConfigError(f"file {name!a} cannot be the name of a file: {error}") from None
        if any(pathlib.Path(real).is_relative_to(each) for each in self._paths):
            return real
        allowed = ", ".join(map(str, self._paths)) or "none"
        leads = "" if real == name else f" (resolved to {real})"
        raise ConfigError(
            f"file {name}{leads} is outside the paths that this worker allows ({allowed}): use"
            f" another file, or add its folder to {ALLOWED_PATHS_CONFIG} in the worker's properties"
        )

    def open(self, name: str, flags: int) -> int:
        """A file descriptor. Raises `ConfigError` and `OSError`."""
        real = self.check(name)
        flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        opened = os.open(real, flags, 0o666)
        why = _explain_refusal(opened, real)
        if why:
            os.close(opened)
            raise ConfigError(f"file {name} {why}")
        return opened


def _explain_refusal(opened: int, real: str) -> str:
    """Why the file may not be used after all; "" where it may."""
    found = os.fstat(opened)
    # A folder on the way may have become a link since the path was resolved.
    if os.path.realpath(real) != real or not _is_same_file(opened, real):
        return "was replaced while it was opened"
    if real == os.devnull:
        return ""
    if not stat.S_ISREG(found.st_mode):
        return "is no regular file: pipes, devices and folders cannot be used"
    if found.st_nlink > 1:
        return f"has {found.st_nlink} names (hard links): use a file with one name, such as a copy"
    return ""


def _is_same_file(opened: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(opened), os.lstat(path))
    except FileNotFoundError:
        return False


def restrict_to_paths(of: _Class, allowed: AllowedPaths) -> _Class:
    """The same class, by the same name, that uses files under these paths."""
    names = {"__module__": of.__module__, "__qualname__": of.__qualname__, "__doc__": of.__doc__}
    return type(of)(of.__name__, (of,), {**names, "allowed": allowed})


def add_path_errors(values: list[ConfigValue], allowed: AllowedPaths) -> list[ConfigValue]:
    """With an error at `file` if it may not be used."""
    for each in values:
        if each.name == FILE_CONFIG and each.value and not each.error_messages:
            try:
                allowed.check(each.value)
            except ConfigError as error:
                each.error_messages.append(str(error))
    return values
