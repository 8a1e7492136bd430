"""Values from elsewhere: `${env:NAME}`, `${file:path:key}`, `${dir:path:file}`.

The grammar and meaning are those of Kafka's `ConfigTransformer` with `EnvVarConfigProvider`,
`FileConfigProvider` (a properties file) and `DirectoryConfigProvider` (a file per value, as
Kubernetes mounts secrets). Unlike Kafka, a placeholder that cannot be filled is an error, and
whatever came through one counts as a secret.

Files in YAML have the three under the names `env`, `file` and `dir`. Files in Java's form declare
their own with `config.providers`, and what names none of these stays as it is, as in Kafka.
"""

from __future__ import annotations

import enum
import os
import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect_runtime.adapters.config import properties_source
from connect_runtime.base import placeholders, user_pattern
from connect_runtime.system import file_bytes

_FILE_BYTES_MAX = 1024 * 1024

ALLOWED = "${env:NAME}, ${file:path:key} or ${dir:path:file}"


def named(text: str) -> list[str]:
    """The providers that the text's placeholders name, in their order."""
    return [each.provider for each in placeholders.find(text)]


def rewrite(text: str, spell: Callable[[str, str, str], str]) -> str:
    """The text with each placeholder as `spell(provider, path, key)` has it; path "": none."""
    return placeholders.replace(text, lambda each: spell(each.provider, each.path or "", each.key))


class ProviderError(ValueError):
    """A placeholder that cannot be filled; says why, and holds no value."""


class Kind(enum.Enum):
    """Where a provider's values come from."""

    ENVIRONMENT = "env"
    FILE = "file"
    FOLDER = "dir"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One declared provider. `paths`: only files in or below these (`allowed.paths`), any if
    empty. `names`: only variables whose whole name matches (`allowlist.pattern`)."""

    kind: Kind
    paths: tuple[pathlib.Path, ...] = ()
    names: user_pattern.Pattern | None = None


BUILT_IN: Mapping[str, Provider] = {kind.value: Provider(kind=kind) for kind in Kind}


@dataclass(frozen=True, slots=True)
class Resolved:
    text: str = field(repr=False)
    secret: bool


class ValueProviders:
    """Fills placeholders. Relative paths start at `folder`; each properties file is read once.

    `declared` None: the three built-in ones, and whatever else looks like a placeholder is an
    error. Otherwise exactly these, and other texts stay as they are.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        folder: pathlib.Path,
        declared: Mapping[str, Provider] | None = None,
    ) -> None:
        self._environment = environment
        self._declared = BUILT_IN if declared is None else declared
        self._strict = declared is None
        self._folder = folder
        self._properties: dict[pathlib.Path, dict[str, str]] = {}
        self._names: set[str] = set()

    @property
    def environment_names(self) -> frozenset[str]:
        """The variables that values came from: secrets, which no child process should inherit."""
        return frozenset(self._names)

    def resolve(self, text: str) -> Resolved:
        """Raises `ProviderError`. What a provider returns is not searched again."""
        if self._strict and "${" in placeholders.replace(text, lambda _: ""):
            # It is not repeated: it may be part of a password.
            raise ProviderError("holds a ${ that begins no placeholder")

        def fill(found: placeholders.Placeholder) -> str:
            filled = self._fill(found)
            return text[found.start : found.end] if filled is None else filled

        return Resolved(placeholders.replace(text, fill), secret=self.fills(text))

    def fills(self, text: str) -> bool:
        """Does the text hold a placeholder of one of these providers?"""
        return any(
            self._strict or found.provider in self._declared for found in placeholders.find(text)
        )

    def _fill(self, found: placeholders.Placeholder) -> str | None:
        """The value; None if no provider has that name and unknown ones are left as they are."""
        name, path, key = found.provider, found.path or "", found.key
        provider = self._declared.get(name)
        if provider is None and not self._strict:
            return None
        if provider is None:
            raise ProviderError(f"there is no provider {name!r}")
        if provider.kind is Kind.ENVIRONMENT:
            if path:
                raise ProviderError(f"variables have no path: write ${{{name}:NAME}}")
            return self._from_environment(key, provider)
        file = self._folder / path
        if path and provider.paths and not any(_within(file, each) for each in provider.paths):
            raise ProviderError(f"{file} is not in allowed.paths of the provider {name!r}")
        if provider.kind is Kind.FILE:
            return self._from_properties(path, key)
        return self._from_folder(path, key)

    def _from_environment(self, name: str, provider: Provider) -> str:
        try:
            allowed = provider.names is None or provider.names.fullmatch(name)
        except user_pattern.MatchLimitError as error:
            raise ProviderError(f"allowlist.pattern: {error}") from None
        if not allowed:
            raise ProviderError(f"{name!r} does not match the provider's allowlist.pattern")
        if name not in self._environment:
            raise ProviderError(f"the environment has no variable {name!r}")
        self._names.add(name)
        return self._environment[name]

    def _from_properties(self, path: str, key: str) -> str:
        if not path:
            raise ProviderError(f"${{file:{key}}} names no key: write ${{file:path:key}}")
        file = self._folder / path
        if file not in self._properties:
            content = _read(file)
            try:
                self._properties[file] = properties_source.parse(content)
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


def _within(file: pathlib.Path, folder: pathlib.Path) -> bool:
    """After `..` is taken out, as text: links are followed by whoever made them."""
    return pathlib.Path(os.path.abspath(file)).is_relative_to(folder)


def _read(file: pathlib.Path) -> str:
    if "\0" in str(file):
        raise ProviderError("a path cannot hold a NUL character")
    try:
        content = file_bytes.read(file, most=_FILE_BYTES_MAX)
    except OSError as error:
        raise ProviderError(f"cannot read {file}: {error.strerror}") from None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ProviderError(f"{file} is not UTF-8 text") from None
