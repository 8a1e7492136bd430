"""Reads a worker's properties file, resolves its placeholders and collects its problems.

The file is parsed as in Java, then `${provider:path:key}` is replaced. `ErrorCollector` keeps the
first problem of each key and raises all problems together.
"""

from __future__ import annotations

import logging
import pathlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.config import (
    config_errors,
    config_providers,
    java_properties,
    worker_config_keys,
)
from connect_runtime.config.config_errors import ConfigProblem, SettingsError
from connect_runtime.config.config_providers import ConfigProvider, ConfigTransformer, ProviderError
from connect_runtime.config.java_properties import JavaProperty
from connect_runtime.system import secure_file_access

_LOG = logging.getLogger(__name__)
_PLUGIN_PATH_KEY = "plugin.path"
_SPARK_PREFIX = "mm2.spark."
_SPARK_MASTER_KEY = f"{_SPARK_PREFIX}master"
HARMLESS_SPARK_KEYS = frozenset(
    f"{_SPARK_PREFIX}{name}"
    for name in (
        "app.name",
        "conf.spark.cores.max",
        "conf.spark.driver.bindAddress",
        "conf.spark.driver.blockManager.port",
        "conf.spark.driver.cores",
        "conf.spark.driver.host",
        "conf.spark.driver.memory",
        "conf.spark.driver.memoryOverhead",
        "conf.spark.driver.port",
        "conf.spark.executor.cores",
        "conf.spark.executor.instances",
        "conf.spark.executor.memory",
        "conf.spark.executor.memoryOverhead",
        "control.host",
        "control.port",
        "driver.bindAddress",
        "driver.blockManager.port",
        "driver.host",
        "driver.port",
        "ui",
    )
)
"""Keys of a worker's `mm2.spark.*` settings that cannot make this machine run code: names, sizes
and addresses."""
_FILE_ACCESS_KEYS = (worker_config_keys.FILE_PATHS_KEY, config_providers.PROVIDERS_KEY)
"""Keys that determine which files users of the REST API can read or write through the worker."""

PropertyPairs = Mapping[str, JavaProperty]
MAX_FILE_BYTES = 4 * 1024 * 1024
"""Maximum file size, which is much larger than any real configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedProperties:
    """A properties file with its placeholders resolved."""

    file: str
    pairs: PropertyPairs
    """Key-value pairs as written in the file, by key."""
    values: Mapping[str, str] = field(repr=False)
    """Resolved values by key, excluding the keys in `unresolved_keys`."""
    provided_keys: frozenset[str]
    """Keys whose value came from a config provider."""
    unresolved_keys: frozenset[str]
    """Keys whose value contains a placeholder that cannot be resolved."""
    providers: Mapping[str, ConfigProvider]
    problems: tuple[ConfigProblem, ...]
    warnings: tuple[ConfigProblem, ...]


def read_properties_text(path: pathlib.Path) -> str:
    """Read a properties file in Kafka's encoding, ISO-8859-1.

    Raises `SettingsError` if the file cannot be read. Raises `SettingsError` too if another user
    can change the file and the file contains references such as `${file:path:key}` or security
    risks (`_explain_security_risk`).
    """
    try:
        content, writer = secure_file_access.read_file_and_find_untrusted_writer(
            path, max_bytes=MAX_FILE_BYTES
        )
    except OSError as error:
        raise config_errors.build_unreadable_file_error(
            str(path), f"cannot be read: {error.strerror}"
        ) from None
    text = content.decode("iso-8859-1")
    if writer is not None:
        can_write, remedy = config_errors.explain_other_user_write_access(path, writer)
        because = f"but {can_write}; to fix this, {remedy}"
        pairs = parse_property_pairs(text, file=str(path))
        problems = [
            ConfigProblem(line=pair.line, key=pair.key, text=f"{danger}, {because}")
            for pair in pairs
            if (danger := _explain_security_risk(pair))
        ]
        problems += config_errors.build_placeholder_problems(
            ((pair.line, pair.key, pair.value) for pair in pairs), because
        )
        if problems:
            raise SettingsError(str(path), problems)
        _LOG.warning("%s: %s; to prevent this, %s", path, can_write, remedy)
    return text


def _explain_security_risk(pair: JavaProperty) -> str:
    """Explain what a user who can change this property could do with it; return "" if the property
    is harmless."""
    if pair.key in _FILE_ACCESS_KEYS:
        return "can give users of the REST API access to your files"
    if pair.key == _SPARK_MASTER_KEY:  # a Spark cluster receives this user's credentials
        is_harmless = is_local_spark_master(pair.value)
    else:
        is_harmless = pair.key in HARMLESS_SPARK_KEYS or not pair.key.startswith(_SPARK_PREFIX)
    return "" if is_harmless and pair.key != _PLUGIN_PATH_KEY else "can run code"


def is_local_spark_master(master: str) -> bool:
    """Return True if this Spark master runs Spark in a single JVM on this machine."""
    return master == "local" or master.startswith("local[")


def parse_property_pairs(content: str, *, file: str) -> tuple[JavaProperty, ...]:
    """Parse all key-value pairs of a properties file, including duplicate keys. Raises
    `SettingsError`."""
    try:
        return java_properties.parse_property_entries(content)
    except ValueError as error:
        line, _, words = str(error).removeprefix("line ").partition(": ")
        problem = ConfigProblem(line=int(line), key="", text=words)
        raise SettingsError(file, [problem]) from None


def parse_properties_file(
    content: str, *, file: str, folder: pathlib.Path, environment: Mapping[str, str]
) -> ResolvedProperties:
    """Parse a properties file and resolve its placeholders. Relative paths are relative to
    `folder`.

    Raises `SettingsError` if the content is not a valid properties file.
    """
    warned = [
        _build_non_ascii_warning(line) for line in java_properties.find_non_ascii_lines(content)
    ]
    found: dict[str, JavaProperty] = {}
    for pair in parse_property_pairs(content, file=file):
        earlier = found.pop(pair.key, None)
        if earlier is not None:
            words = f"has no effect: the key is repeated on line {pair.line}"
            warned.append(_build_property_problem(earlier, words))
        found[pair.key] = pair
    return _resolve_pairs(found, warned, file=file, folder=folder, environment=environment)


def resolve_properties(
    properties: Mapping[str, str],
    *,
    file: str,
    folder: pathlib.Path,
    environment: Mapping[str, str],
) -> ResolvedProperties:
    """Resolve properties that were derived from `file` and therefore have no line numbers."""
    found = {key: JavaProperty(key=key, value=value, line=0) for key, value in properties.items()}
    return _resolve_pairs(found, [], file=file, folder=folder, environment=environment)


def _resolve_pairs(
    found: Mapping[str, JavaProperty],
    warned: list[ConfigProblem],
    *,
    file: str,
    folder: pathlib.Path,
    environment: Mapping[str, str],
) -> ResolvedProperties:
    refused: list[ConfigProblem] = []
    declared = config_providers.read_declared_providers(
        found, refuse=refused.append, warn=warned.append
    )
    providers = ConfigTransformer(environment=environment, folder=folder, declared=declared)
    filler = _PlaceholderResolver(providers)
    for pair in found.values():
        filler.resolve_pair(pair)
        warned += [
            _build_property_problem(
                pair,
                f"contains a ${{{name}:…}} reference, which is not resolved:"
                f" {config_providers.PROVIDERS_KEY} does not declare '{name}'",
            )
            for name in dict.fromkeys(config_providers.find_provider_names(pair.value))
            if name not in declared
        ]
    return ResolvedProperties(
        file=file,
        pairs=found,
        values=filler.values,
        provided_keys=frozenset(filler.filled),
        unresolved_keys=frozenset(each.key for each in filler.problems),
        providers=declared,
        problems=(*refused, *filler.problems),
        warnings=tuple(warned),
    )


class _PlaceholderResolver:
    def __init__(self, providers: ConfigTransformer) -> None:
        self._providers = providers
        self.values: dict[str, str] = {}
        self.filled: set[str] = set()
        self.problems: list[ConfigProblem] = []

    def resolve_pair(self, pair: JavaProperty) -> None:
        try:
            resolved = self._providers.resolve_placeholders(pair.value)
        except ProviderError as error:
            self.problems.append(_build_property_problem(pair, f"cannot be resolved: {error}"))
            return
        self.values[pair.key] = resolved.text
        if resolved.is_secret:
            self.filled.add(pair.key)


def _build_property_problem(pair: JavaProperty, words: str) -> ConfigProblem:
    return ConfigProblem(line=pair.line, key=pair.key, text=words)


def _build_non_ascii_warning(line: int) -> ConfigProblem:
    words = "contains non-ASCII characters, which are read as ISO-8859-1 as in Java: use \\uXXXX"
    return ConfigProblem(line=line, key="", text=words)


_INVALID_VALUE_PATTERN = re.compile(
    r"Invalid value .* for configuration \S+?(?:: (?P<why>.*))?", re.DOTALL
)
_MIN_REDACTED_LENGTH = 4
"""Minimum length of secrets to redact. Shorter values may occur in messages by coincidence."""


class ErrorCollector:
    """Collects problems and warnings of a properties file, at most one problem per key.

    An unresolved placeholder takes precedence over all other problems of its key.
    """

    def __init__(self, given: ResolvedProperties) -> None:
        self._given = given
        self._problems: list[ConfigProblem] = list(given.problems)
        self._warnings: list[ConfigProblem] = list(given.warnings)
        self.values = given.values

    def add_problem(self, key: str, text: str, *, allowed: str | None = None) -> None:
        """Record a problem with a key's value; the key "" stands for the whole file.

        If `text` is a message of `ConfigDef`, which repeats the key and the value, only the reason
        is recorded.
        """
        if key in self.invalid_keys:
            return
        match = _INVALID_VALUE_PATTERN.fullmatch(text)
        if match is not None:
            text = match["why"] or "is not allowed"
        if text.startswith("Missing required configuration"):
            text = f"is missing: add {key}=… to the file"
        self._problems.append(
            ConfigProblem(
                line=self._get_line_number(key),
                key=key,
                text=self._redact_message(key, text),
                given=self._get_redacted_value(key),
                allowed=None if allowed is None else self._redact_message(key, allowed),
            )
        )

    def add_warning(self, key: str, text: str, *, nearest: str | None = None) -> None:
        """Record a warning about a setting that has no effect or an unexpected effect."""
        self._warnings.append(
            ConfigProblem(
                line=self._get_line_number(key),
                key=key,
                text=self._redact_message(key, text),
                nearest=nearest,
            )
        )

    @property
    def invalid_keys(self) -> set[str]:
        """Keys that have a problem."""
        return {each.key for each in self._problems if each.key} | self._given.unresolved_keys

    def raise_errors_or_get_warnings(self) -> tuple[str, ...]:
        """Return the recorded warnings as lines, or raise `SettingsError` if problems were
        recorded."""
        if self._problems:
            raise SettingsError(self._given.file, self._problems)
        ordered = sorted(dict.fromkeys(self._warnings), key=lambda each: each.line)
        return tuple(each.describe(self._given.file) for each in ordered)

    def _get_line_number(self, key: str) -> int:
        pair = self._given.pairs.get(key)
        return 0 if pair is None else pair.line

    def _get_redacted_value(self, key: str) -> str | None:
        pair = self._given.pairs.get(key)
        if pair is None:
            return None
        return config_errors.HIDDEN_VALUE if config_errors.is_sensitive_key(key) else pair.value

    def _redact_message(self, key: str, text: str) -> str:
        """Replace the whole message if it contains a secret or a value from a provider."""
        for each in self._list_secret_keys():
            least = 1 if each == key else _MIN_REDACTED_LENGTH
            if any(
                len(part) >= least for part in _find_value_parts_in_message(self.values[each], text)
            ):
                return "has an invalid value, which is not shown because it is a secret"
        return text

    def _list_secret_keys(self) -> Iterable[str]:
        return (
            each
            for each in self.values
            if each in self._given.provided_keys or config_errors.is_sensitive_key(each)
        )


def _find_value_parts_in_message(value: str, text: str) -> list[str]:
    """Return a configuration value, or those items of its comma-separated list, that a message
    contains."""
    parts = {value.strip(), *(each.strip() for each in value.split(","))} - {""}
    return [each for each in parts if each.lower() in text.lower()]
