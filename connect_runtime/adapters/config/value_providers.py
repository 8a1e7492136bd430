"""Values from elsewhere: `${env:NAME}`, `${file:path:key}`, `${dir:path:file}`.

The grammar and meaning are those of Kafka's `ConfigTransformer` with `EnvVarConfigProvider`,
`FileConfigProvider` (a properties file) and `DirectoryConfigProvider` (a file per value, as
Kubernetes mounts secrets). Unlike Kafka, a placeholder that cannot be filled is an error, and
whatever came through one counts as a secret.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.adapters.config import properties_source

_PLACEHOLDER = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}]*?)\}")
_ANY_PLACEHOLDER = re.compile(r"\$\{[^}]*\}?")
_FILE_BYTES_MAX = 1024 * 1024

ALLOWED = "${env:NAME}, ${file:path:key} or ${dir:path:file}"


class ProviderError(ValueError):
    """A placeholder that cannot be filled; says why, and holds no value."""


@dataclass(frozen=True, slots=True)
class Resolved:
    text: str = field(repr=False)
    secret: bool


class ValueProviders:
    """Fills placeholders. Relative paths start at `folder`; each properties file is read once."""

    def __init__(self, *, environment: Mapping[str, str], folder: pathlib.Path) -> None:
        self._environment = environment
        self._folder = folder
        self._properties: dict[pathlib.Path, dict[str, str]] = {}
        self._names: set[str] = set()

    @property
    def environment_names(self) -> frozenset[str]:
        """The variables that values came from: secrets, which no child process should inherit."""
        return frozenset(self._names)

    def resolve(self, text: str) -> Resolved:
        """Raises `ProviderError`. What a provider returns is not searched again."""
        left_over = _ANY_PLACEHOLDER.search(_PLACEHOLDER.sub("", text))
        if left_over:
            raise ProviderError(f"{left_over.group()} is no placeholder")
        filled = _PLACEHOLDER.sub(self._fill, text)
        return Resolved(filled, secret=_PLACEHOLDER.search(text) is not None)

    def _fill(self, match: re.Match[str]) -> str:
        provider, path, key = match.group(1), match.group(2) or "", match.group(3)
        if provider == "env":
            return self._from_environment(key)
        if provider == "file":
            return self._from_properties(path, key)
        if provider == "dir":
            return self._from_folder(path, key)
        raise ProviderError(f"there is no provider {provider!r}")

    def _from_environment(self, name: str) -> str:
        if name not in self._environment:
            raise ProviderError(f"the environment has no variable {name!r}")
        self._names.add(name)
        return self._environment[name]

    def _from_properties(self, path: str, key: str) -> str:
        if not path:
            raise ProviderError(f"${{file:{key}}} names no key: write ${{file:path:key}}")
        file = self._folder / path
        if file not in self._properties:
            try:
                self._properties[file] = properties_source.parse(_read(file))
            except ValueError as error:
                raise ProviderError(f"{file}: {error}") from None
        if key not in self._properties[file]:
            raise ProviderError(f"{file} has no key {key!r}")
        return self._properties[file][key]

    def _from_folder(self, path: str, name: str) -> str:
        if not path:
            raise ProviderError(f"${{dir:{name}}} names no file: write ${{dir:path:file}}")
        if name in ("", "..") or pathlib.PurePath(name).name != name:
            raise ProviderError(f"{name!r} has to be a file's name in {path}, without folders")
        # Editors and `kubectl create secret --from-file` leave a line end that nobody means.
        return _read(self._folder / path / name).rstrip("\r\n")


def _read(file: pathlib.Path) -> str:
    if "\0" in str(file):
        raise ProviderError("a path cannot hold a NUL character")
    try:
        with file.open("rb") as stream:
            content = stream.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ProviderError(f"cannot read {file}: {error.strerror}") from None
    if len(content) > _FILE_BYTES_MAX:
        raise ProviderError(f"{file} is larger than 1 MB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ProviderError(f"{file} is not UTF-8 text") from None
