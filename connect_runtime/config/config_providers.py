"""Config providers: replaces `${env:NAME}`, `${file:path:key}` and `${dir:path:file}`.

Grammar and meaning are those of Kafka's `ConfigTransformer` with `EnvVarConfigProvider`,
`FileConfigProvider` (a properties file) and `DirectoryConfigProvider` (one file per value, as
Kubernetes mounts secrets). Unlike Kafka, a placeholder that cannot be resolved is an error, and
every value that came from a provider counts as a secret.

YAML files have the three under the names `env`, `file` and `dir`. Properties files declare their
own with `config.providers`; other text of that form stays as it is, as in Kafka.
"""

from __future__ import annotations

import enum
import os
import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect_runtime.api.errors import ConfigError
from connect_runtime.base import bounded_regex, config_placeholders
from connect_runtime.base.bounded_regex import BoundedPattern, MatchLimitError, PatternError
from connect_runtime.base.config_placeholders import Placeholder
from connect_runtime.config import java_properties
from connect_runtime.config.config_errors import ConfigProblem
from connect_runtime.config.java_properties import JavaProperty
from connect_runtime.storage.cluster_config_state import RawConfig
from connect_runtime.system import files

_MAX_FILE_BYTES = 1024 * 1024

ALLOWED_PLACEHOLDERS = "${env:NAME}, ${file:path:key} or ${dir:path:file}"


def find_provider_names(text: str) -> list[str]:
    """The providers that the text's placeholders name, in their order."""
    return [each.provider for each in config_placeholders.find_placeholders(text)]


def rewrite_placeholders(text: str, spell: Callable[[str, str, str], str]) -> str:
    """The text with each placeholder as `spell(provider, path, key)` has it; path "": none."""
    return config_placeholders.replace_placeholders(
        text, lambda each: spell(each.provider, each.path or "", each.key)
    )


class ProviderError(ValueError):
    """A placeholder that cannot be filled; says why, and holds no value."""


class ProviderKind(enum.Enum):
    """Where a provider's values come from."""

    ENVIRONMENT = "env"
    FILE = "file"
    FOLDER = "dir"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigProvider:
    """One declared provider. `paths`: only files in or below these (`allowed.paths`), any if
    empty. `names`: only variables whose whole name matches (`allowlist.pattern`)."""

    kind: ProviderKind
    paths: tuple[pathlib.Path, ...] = ()
    names: BoundedPattern | None = None


BUILT_IN_PROVIDERS: Mapping[str, ConfigProvider] = {
    kind.value: ConfigProvider(kind=kind) for kind in ProviderKind
}


@dataclass(frozen=True, slots=True)
class ResolvedText:
    text: str = field(repr=False)
    secret: bool


class ConfigTransformer:
    """Fills placeholders. Relative paths start at `folder`; each properties file is read once.

    `declared` None: the three built-in ones, and whatever else looks like a placeholder is an
    error. Otherwise exactly these, and other texts stay as they are.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        folder: pathlib.Path,
        declared: Mapping[str, ConfigProvider] | None = None,
    ) -> None:
        self._environment = environment
        self._declared = BUILT_IN_PROVIDERS if declared is None else declared
        self._strict = declared is None
        self._folder = folder
        self._properties: dict[pathlib.Path, dict[str, str]] = {}
        self._names: set[str] = set()

    @property
    def environment_names(self) -> frozenset[str]:
        """The variables that values came from: secrets, which no child process should inherit."""
        return frozenset(self._names)

    def resolve(self, text: str) -> ResolvedText:
        """Raises `ProviderError`. What a provider returns is not searched again."""
        if self._strict and "${" in config_placeholders.replace_placeholders(text, lambda _: ""):
            # It is not repeated: it may be part of a password.
            raise ProviderError("holds a ${ that begins no placeholder")

        def fill(found: Placeholder) -> str:
            filled = self._fill(found)
            return text[found.start : found.end] if filled is None else filled

        return ResolvedText(
            config_placeholders.replace_placeholders(text, fill), secret=self.fills(text)
        )

    def fills(self, text: str) -> bool:
        """Does the text hold a placeholder of one of these providers?"""
        return any(
            self._strict or found.provider in self._declared
            for found in config_placeholders.find_placeholders(text)
        )

    def _fill(self, found: Placeholder) -> str | None:
        """The value; None if no provider has that name and unknown ones are left as they are."""
        name, path, key = found.provider, found.path or "", found.key
        provider = self._declared.get(name)
        if provider is None and not self._strict:
            return None
        if provider is None:
            raise ProviderError(f"there is no provider {name!r}")
        if provider.kind is ProviderKind.ENVIRONMENT:
            if path:
                raise ProviderError(f"variables have no path: write ${{{name}:NAME}}")
            return self._from_environment(key, provider)
        file = self._folder / path
        if path and provider.paths and not any(_is_within(file, each) for each in provider.paths):
            raise ProviderError(f"{file} is not in allowed.paths of the provider {name!r}")
        if provider.kind is ProviderKind.FILE:
            return self._from_properties(path, key)
        return self._from_folder(path, key)

    def _from_environment(self, name: str, provider: ConfigProvider) -> str:
        try:
            allowed = provider.names is None or provider.names.fullmatch(name)
        except MatchLimitError as error:
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
            content = _read_file(file)
            try:
                self._properties[file] = java_properties.parse_properties(content)
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
        return _read_file(self._folder / path / name).rstrip("\r\n")


def _is_within(file: pathlib.Path, folder: pathlib.Path) -> bool:
    """After `..` is taken out, as text: links are followed by whoever made them."""
    return pathlib.Path(os.path.abspath(file)).is_relative_to(folder)


def _read_file(file: pathlib.Path) -> str:
    if "\0" in str(file):
        raise ProviderError("a path cannot hold a NUL character")
    try:
        content = files.read_bounded(file, most=_MAX_FILE_BYTES)
    except OSError as error:
        raise ProviderError(f"cannot read {file}: {error.strerror}") from None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ProviderError(f"{file} is not UTF-8 text") from None


PROVIDERS_KEY = "config.providers"
_JAVA_PACKAGE = "org.apache.kafka.common.config.provider."
KIND_BY_JAVA_CLASS: Mapping[str, ProviderKind] = {
    f"{_JAVA_PACKAGE}DirectoryConfigProvider": ProviderKind.FOLDER,
    f"{_JAVA_PACKAGE}EnvVarConfigProvider": ProviderKind.ENVIRONMENT,
    f"{_JAVA_PACKAGE}FileConfigProvider": ProviderKind.FILE,
}
_ALLOWED_PATHS_PARAM = "param.allowed.paths"
_ALLOWED_NAMES_PARAM = "param.allowlist.pattern"

ReportProblem = Callable[[ConfigProblem], None]


def read_declared_providers(
    pairs: Mapping[str, JavaProperty], *, refuse: ReportProblem, warn: ReportProblem
) -> Mapping[str, ConfigProvider]:
    """The providers by name; mistakes go to `refuse`, keys without effect to `warn`."""
    listed = pairs.get(PROVIDERS_KEY)
    names = [name.strip() for name in listed.value.split(",")] if listed is not None else []
    found: dict[str, ConfigProvider] = {}
    for name in filter(None, names):
        assert listed is not None
        provider = _read_provider(name, pairs, listed=listed, refuse=refuse)
        if provider is not None:
            found[name] = provider
    known = {
        PROVIDERS_KEY,
        *(
            f"{PROVIDERS_KEY}.{name}.{key}"
            for name in names
            for key in ("class", _ALLOWED_PATHS_PARAM, _ALLOWED_NAMES_PARAM)
        ),
    }
    for key, pair in pairs.items():
        if key.startswith(PROVIDERS_KEY) and key not in known:
            warn(ConfigProblem(line=pair.line, key=key, text="has no effect: no such parameter"))
    return found


def _read_provider(
    name: str,
    pairs: Mapping[str, JavaProperty],
    *,
    listed: JavaProperty,
    refuse: ReportProblem,
) -> ConfigProvider | None:
    key = f"{PROVIDERS_KEY}.{name}.class"
    given = pairs.get(key)
    kind = KIND_BY_JAVA_CLASS.get(given.value.strip()) if given is not None else None
    if kind is None:
        refuse(
            ConfigProblem(
                line=listed.line if given is None else given.line,
                key=key,
                text="is missing" if given is None else "is no provider that is here",
                given=None if given is None else given.value,
                allowed=", ".join(sorted(KIND_BY_JAVA_CLASS)),
            )
        )
        return None
    paths, pattern = (
        pairs.get(f"{PROVIDERS_KEY}.{name}.{_ALLOWED_PATHS_PARAM}"),
        pairs.get(f"{PROVIDERS_KEY}.{name}.{_ALLOWED_NAMES_PARAM}"),
    )
    return ConfigProvider(
        kind=kind,
        paths=_parse_allowed_paths(paths, refuse),
        names=_parse_allowed_names(pattern, refuse),
    )


def _parse_allowed_paths(
    pair: JavaProperty | None, refuse: ReportProblem
) -> tuple[pathlib.Path, ...]:
    if pair is None:
        return ()
    found = [pathlib.Path(each.strip()) for each in pair.value.split(",") if each.strip()]
    if not all(each.is_absolute() for each in found):
        text = "needs absolute paths"
        refuse(ConfigProblem(line=pair.line, key=pair.key, text=text, given=pair.value))
    return tuple(found)


def _parse_allowed_names(pair: JavaProperty | None, refuse: ReportProblem) -> BoundedPattern | None:
    if pair is None:
        return None
    try:
        return bounded_regex.compile_pattern(pair.value.strip())
    except PatternError as error:
        text = f"cannot be used: {error.reason}"
        refuse(ConfigProblem(line=pair.line, key=pair.key, text=text, given=pair.value))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorConfigTransformer:
    """The worker's `config.providers`; what names none of them stays as it is.

    Files are read at every call: a changed secret counts from the connector's next start.
    """

    providers: Mapping[str, ConfigProvider]
    environment: Mapping[str, str] = field(repr=False)
    folder: pathlib.Path

    def __call__(self, config: RawConfig) -> dict[str, str | None]:
        """Raises `ConfigError` for the first that cannot be filled in; it holds no value."""
        source = ConfigTransformer(
            environment=self.environment, folder=self.folder, declared=self.providers
        )
        found: dict[str, str | None] = {}
        for key, value in config.items():
            try:
                found[key] = None if value is None else source.resolve(value).text
            except ProviderError as error:
                raise ConfigError(f"{key} cannot be filled in: {error}") from None
        return found
