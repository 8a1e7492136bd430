"""Restricts the FileStream connectors to files under the worker's `file.stream.allowed.paths`.

Connector configurations arrive over the REST API. Without this check, users of the API could read
and write every file that the worker's user can. Symbolic links are resolved before paths are
compared. Only the null device and regular files with a single name are opened: hard links would
bypass the check, and opening a pipe can block forever.
"""

from __future__ import annotations

import os
import pathlib
import stat
from collections.abc import Iterable
from typing import TypeVar

from connect_runtime.api.config_def import ConfigValue
from connect_runtime.api.errors import ConfigError
from connect_runtime.base import path_resolution

FILE_CONFIG = "file"
ALLOWED_PATHS_CONFIG = "file.stream.allowed.paths"
"""Worker property that lists the paths which the FileStream connectors may use."""

_Class = TypeVar("_Class", bound=type)


class AllowedPaths:
    """Allows access to the paths in `paths` and to everything below them. If `paths` is empty, no
    file is allowed."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._paths = tuple(pathlib.Path(os.path.realpath(each)) for each in paths)

    def resolve_allowed_path(self, name: str) -> str:
        """Return the file's resolved path. Raises `ConfigError` if the file is not allowed."""
        try:
            real = path_resolution.resolve_path(name)
        except ValueError as error:
            raise ConfigError(f"{name[:100]!a} is not a valid file name: {error}") from None
        if any(pathlib.Path(real).is_relative_to(each) for each in self._paths):
            return real
        allowed = ", ".join(map(str, self._paths)) or "none"
        leads = "" if real == name else f" (resolved to {real})"
        raise ConfigError(
            f"file {name}{leads} is outside the paths that this worker allows ({allowed}): choose"
            f" another file, or add its directory to {ALLOWED_PATHS_CONFIG} in the worker's"
            " properties"
        )

    def open_allowed_file(self, name: str, flags: int) -> int:
        """Open a file if it is allowed, and return its descriptor. Raises `ConfigError` or
        `OSError`."""
        real = self.resolve_allowed_path(name)
        flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        opened = os.open(real, flags, 0o666)
        why = _explain_refused_file(opened, real)
        if why:
            os.close(opened)
            raise ConfigError(f"file {name} {why}")
        return opened


def _explain_refused_file(opened: int, real: str) -> str:
    """Explain why the opened file must not be used; return "" if it may be used."""
    found = os.fstat(opened)
    # A directory in the path may have been replaced by a link since the path was resolved.
    if os.path.realpath(real) != real or not _is_same_file(opened, real):
        return "was replaced while it was being opened"
    if real == os.devnull:
        return ""
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file: pipes, devices and directories are not allowed"
    if found.st_nlink > 1:
        return f"has {found.st_nlink} hard links: use a file with a single name, such as a copy"
    return ""


def _is_same_file(opened: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(opened), os.lstat(path))
    except FileNotFoundError:
        return False


def restrict_plugin_to_paths(plugin_class: _Class, allowed: AllowedPaths) -> _Class:
    """Return a subclass of the plugin class that has the same name and may use only the allowed
    paths."""
    names = {
        "__module__": plugin_class.__module__,
        "__qualname__": plugin_class.__qualname__,
        "__doc__": plugin_class.__doc__,
    }
    return type(plugin_class)(plugin_class.__name__, (plugin_class,), {**names, "allowed": allowed})


def add_path_errors(values: list[ConfigValue], allowed: AllowedPaths) -> list[ConfigValue]:
    """Add an error to the value of the configuration key `file` if it is not an allowed path."""
    for each in values:
        if each.name == FILE_CONFIG and each.value and not each.error_messages:
            try:
                allowed.resolve_allowed_path(each.value)
            except ConfigError as error:
                each.error_messages.append(str(error))
    return values
