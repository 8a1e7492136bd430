"""Config providers that replace `${env:NAME}`, `${file:path:key}` and `${dir:path:file}`.

Syntax and semantics are those of Kafka's `ConfigTransformer` with `EnvVarConfigProvider`,
`FileConfigProvider` (a properties file) and `DirectoryConfigProvider` (one file per value, as
Kubernetes mounts secrets). Unlike in Kafka, a placeholder that cannot be resolved is an error, and
every value from a provider is treated as a secret.

In YAML files, the three providers are named `env`, `file` and `dir`. Properties files declare
providers with `config.providers`; other placeholders are left unchanged, as in Kafka.
"""

from __future__ import annotations

import enum
import os
import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect_runtime.api.errors import ConfigError
from connect_runtime.base import bounded_regex, config_placeholders, path_resolution
from connect_runtime.base.bounded_regex import BoundedPattern, MatchLimitError, PatternError
from connect_runtime.base.config_placeholders import Placeholder
from connect_runtime.config import java_properties
from connect_runtime.config.config_errors import ConfigProblem
from connect_runtime.config.java_properties import JavaProperty
from connect_runtime.storage.cluster_config_state import RawConfig
from connect_runtime.system import secure_file_access

_MAX_FILE_BYTES = 1024 * 1024
RESOLVED_LENGTH_MAX = 4 * 1024 * 1024
"""Maximum length, in characters, of all values with placeholders in one configuration, before and
after resolution together. The limit allows several large files, but prevents a short configuration
that refers to one file many times from exhausting the memory."""
PLACEHOLDERS_MAX = 10_000
"""Maximum number of placeholders in a configuration. It is limited because each may read a file."""
READ_BYTES_MAX = 16 * 1024 * 1024
"""Maximum number of bytes read from files for one configuration (16 files of the maximum size)."""

ALLOWED_PLACEHOLDERS = "${env:NAME}, ${file:path:key} or ${dir:path:file}"


def find_provider_names(text: str) -> list[str]:
    """Return the provider names of all placeholders in the text, in order."""
    return [each.provider for each in config_placeholders.find_placeholders(text)]


def rewrite_placeholders(text: str, format_placeholder: Callable[[str, str, str], str]) -> str:
    """Replace each placeholder with `format_placeholder(provider, path, key)`. The path is "" if it
    is missing."""
    return config_placeholders.replace_placeholders(
        text, lambda each: format_placeholder(each.provider, each.path or "", each.key)
    )


class ProviderError(ValueError):
    """Raised if a placeholder cannot be resolved. The message contains no values."""


class ProviderKind(enum.Enum):
    """Source of a provider's values: environment variables, a properties file or a directory."""

    ENVIRONMENT = "env"
    FILE = "file"
    FOLDER = "dir"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigProvider:
    """A config provider that the configuration declares."""

    kind: ProviderKind
    paths: tuple[pathlib.Path, ...] = ()
    """Value of `allowed.paths`. After symbolic links are resolved (unlike in Kafka), files must be
    in or below these paths; empty allows all."""
    names: BoundedPattern | None = None
    """Value of `allowlist.pattern`: a regular expression that must match the whole name of an
    environment variable."""


BUILT_IN_PROVIDERS: Mapping[str, ConfigProvider] = {
    kind.value: ConfigProvider(kind=kind) for kind in ProviderKind
}


@dataclass(frozen=True, slots=True)
class ResolvedText:
    """A string after its placeholders were replaced. `is_secret` is True if the string contained a
    placeholder of a known provider, because the replacement may be a secret."""

    text: str = field(repr=False)
    is_secret: bool


class ConfigTransformer:
    """Replaces placeholders in the values of one configuration.

    Create one transformer for each configuration. The limits apply to all values of the
    configuration together, and each file is read once. Relative paths are relative to `folder`.

    If `declared` is None, the built-in providers are used, and an unknown placeholder is an error.
    Otherwise, only declared providers are used, and other placeholders are left unchanged.
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
        self._contents: dict[pathlib.Path, str] = {}
        self._properties: dict[pathlib.Path, dict[str, str]] = {}
        self._names: set[str] = set()
        self._placeholders = 0
        self._resolved_length = 0
        self._read_bytes = 0

    @property
    def referenced_env_variables(self) -> frozenset[str]:
        """Names of the environment variables to which resolved placeholders referred.

        Child processes should not inherit these variables, because they contain secrets.
        """
        return frozenset(self._names)

    def resolve_placeholders(self, text: str) -> ResolvedText:
        """Replace the placeholders in a text. Placeholders within the replacement values are not
        replaced.

        Raises `ProviderError`.
        """
        if self._strict and "${" in config_placeholders.replace_placeholders(text, lambda _: ""):
            # The text is not quoted, because it may be part of a password.
            raise ProviderError(
                "contains '${' that does not start a valid placeholder; valid placeholders are"
                f" {ALLOWED_PLACEHOLDERS}"
            )

        if not self.has_placeholders(text):
            return ResolvedText(text, is_secret=False)
        self._check_total_resolved_length(len(text))

        def resolve_found_placeholder(found: Placeholder) -> str:
            filled = self._resolve_placeholder(found)
            if filled is None:
                return text[found.start : found.end]
            self._check_total_resolved_length(len(filled))
            return filled

        return ResolvedText(
            config_placeholders.replace_placeholders(text, resolve_found_placeholder),
            is_secret=True,
        )

    def _check_total_resolved_length(self, length: int) -> None:
        self._resolved_length += length
        if self._resolved_length > RESOLVED_LENGTH_MAX:
            raise ProviderError(
                "the values with placeholders in the configuration have more than "
                f"{RESOLVED_LENGTH_MAX:,} characters in total: use fewer or smaller files"
            )

    def has_placeholders(self, text: str) -> bool:
        """Return whether the text contains a placeholder of a declared or built-in provider."""
        return any(
            self._strict or found.provider in self._declared
            for found in config_placeholders.find_placeholders(text)
        )

    def _resolve_placeholder(self, found: Placeholder) -> str | None:
        """Return a placeholder's value.

        Returns None if the placeholder's provider is not declared, so the placeholder is left
        unchanged. Without declared providers (`declared` is None), raises `ProviderError` instead.
        """
        name, path, key = found.provider, found.path or "", found.key
        provider = self._declared.get(name)
        if provider is None and not self._strict:
            return None
        if provider is None:
            raise ProviderError(f"provider {name!r} does not exist")
        self._placeholders += 1
        if self._placeholders > PLACEHOLDERS_MAX:
            raise ProviderError(
                f"the configuration has more than {PLACEHOLDERS_MAX:,} placeholders: put the "
                "values into one file and refer to it once"
            )
        if provider.kind is ProviderKind.ENVIRONMENT:
            if path:
                raise ProviderError(f"environment variables have no path: write ${{{name}:NAME}}")
            return self._read_environment_value(key, provider)
        if provider.kind is ProviderKind.FILE:
            return self._read_properties_value(path, key, provider=provider)
        return self._read_directory_value(path, key, provider=provider)

    def _read_environment_value(self, name: str, provider: ConfigProvider) -> str:
        try:
            allowed = provider.names is None or provider.names.fullmatch(name)
        except MatchLimitError as error:
            raise ProviderError(f"allowlist.pattern: {error}") from None
        if not allowed:
            raise ProviderError(f"{name!r} does not match the provider's allowlist.pattern")
        if name not in self._environment:
            raise ProviderError(f"environment variable {name!r} is not set")
        self._names.add(name)
        return self._environment[name]

    def _read_properties_value(self, path: str, key: str, *, provider: ConfigProvider) -> str:
        if not path:
            raise ProviderError(f"${{file:{key}}} names no key: write ${{file:path:key}}")
        file = _resolve_allowed_path(self._folder / path, provider)
        if file not in self._properties:
            content = self._read_provider_file(file)
            try:
                self._properties[file] = java_properties.parse_properties(content)
            except ValueError as error:
                raise ProviderError(f"{file}: {error}") from None
        if key not in self._properties[file]:
            raise ProviderError(f"{file} has no key {key!r}")
        return self._properties[file][key]

    def _read_directory_value(self, path: str, name: str, *, provider: ConfigProvider) -> str:
        if not path:
            raise ProviderError(f"${{dir:{name}}} names no file: write ${{dir:path:file}}")
        if name in ("", "..") or pathlib.PurePath(name).name != name:
            raise ProviderError(f"{name!r} must be a file name in {path}, without directories")
        # Line breaks at the end are removed. Editors append them, and `kubectl create secret
        # --from-file` stores them in the secret.
        file = _resolve_allowed_path(self._folder / path / name, provider)
        if file not in self._contents:
            self._contents[file] = self._read_provider_file(file).rstrip("\r\n")
        return self._contents[file]

    def _read_provider_file(self, file: pathlib.Path) -> str:
        try:
            content = secure_file_access.read_file_with_limit(
                file, max_bytes=_MAX_FILE_BYTES, regular_only=True
            )
        except OSError as error:
            raise ProviderError(f"cannot read {file}: {error.strerror}") from None
        self._read_bytes += len(content)
        if self._read_bytes > READ_BYTES_MAX:
            raise ProviderError(
                "the files that the configuration refers to have more than "
                f"{READ_BYTES_MAX >> 20} MiB in total: use fewer or smaller files"
            )
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise ProviderError(f"{file} is not UTF-8 text") from None


def _resolve_allowed_path(file: pathlib.Path, provider: ConfigProvider) -> pathlib.Path:
    """Resolve `..` and symbolic links, and check the path against `allowed.paths`.

    Returns the resolved path, so that the opened file is the one that was checked.
    """
    try:
        real = pathlib.Path(path_resolution.resolve_path(str(file)))
    except ValueError as error:
        raise ProviderError(f"{str(file)[:100]!a} is not a valid path: {error}") from None
    if provider.paths and not any(
        real.is_relative_to(os.path.realpath(each)) for each in provider.paths
    ):
        resolved_note = "" if real == file else f" (resolved to {real})"
        allowed = ", ".join(map(str, provider.paths))
        raise ProviderError(
            f"{file}{resolved_note} is not in allowed.paths of the provider ({allowed}): use a "
            "file there, or add its directory"
        )
    return real


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
    """Return the config providers that the properties declare, by name.

    Calls `refuse` for each error and `warn` for each unused key.
    """
    listed = pairs.get(PROVIDERS_KEY)
    names = [name.strip() for name in listed.value.split(",")] if listed is not None else []
    found: dict[str, ConfigProvider] = {}
    for name in filter(None, names):
        assert listed is not None
        provider = _read_provider_declaration(name, pairs, listed=listed, refuse=refuse)
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
            warn(ConfigProblem(line=pair.line, key=key, text="has no effect: unknown parameter"))
    return found


def _read_provider_declaration(
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
                text="is missing" if given is None else "is not a supported provider class",
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
        names=_parse_env_allowlist_pattern(pattern, refuse),
    )


def _parse_allowed_paths(
    pair: JavaProperty | None, refuse: ReportProblem
) -> tuple[pathlib.Path, ...]:
    if pair is None:
        return ()
    found = [pathlib.Path(each.strip()) for each in pair.value.split(",") if each.strip()]
    if not all(each.is_absolute() for each in found):
        text = "must contain only absolute paths"
        refuse(ConfigProblem(line=pair.line, key=pair.key, text=text, given=pair.value))
    return tuple(found)


def _parse_env_allowlist_pattern(
    pair: JavaProperty | None, refuse: ReportProblem
) -> BoundedPattern | None:
    if pair is None:
        return None
    try:
        return bounded_regex.compile_pattern(pair.value.strip())
    except PatternError as error:
        text = f"is not a valid pattern: {error.reason}"
        refuse(ConfigProblem(line=pair.line, key=pair.key, text=text, given=pair.value))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorConfigTransformer:
    """Resolves connector configurations with the worker's `config.providers`.

    Files are read for every configuration, so that a changed secret takes effect when the connector
    is restarted.
    """

    providers: Mapping[str, ConfigProvider]
    environment: Mapping[str, str] = field(repr=False)
    folder: pathlib.Path

    def __call__(self, config: RawConfig) -> dict[str, str | None]:
        """Resolve the placeholders of a connector configuration.

        Raises `ConfigError` for the first failure. The error contains no values.
        """
        source = ConfigTransformer(
            environment=self.environment, folder=self.folder, declared=self.providers
        )
        found: dict[str, str | None] = {}
        for key, value in config.items():
            try:
                found[key] = None if value is None else source.resolve_placeholders(value).text
            except ProviderError as error:
                raise ConfigError(f"{key} cannot be resolved: {error}") from None
        return found
