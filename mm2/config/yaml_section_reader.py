"""Reads the options of a YAML section and collects all problems.

Each key of a section is read, refused with a reason, or unknown. `finish` reports refused and
unknown keys. `effective` contains the values as text, with secrets hidden, for `mm2 config show`.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from connect_runtime.base.bounded_regex import PatternError
from connect_runtime.config import config_errors, config_providers
from connect_runtime.config.config_errors import ConfigProblem
from connect_runtime.config.config_providers import ConfigTransformer, ProviderError, ResolvedText
from connect_runtime.config.yaml_parser import (
    YamlEntry,
    YamlList,
    YamlNode,
    YamlScalar,
    YamlSection,
)
from mm2.config.config_value_types import RefusedValueError, ValueType

T = TypeVar("T")

_DEFAULTS_SECTION = "defaults"

PlainYaml = str | int | list[str] | dict[str, str]
AnyValueType = ValueType[object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOption(Generic[T]):
    """A key of a YAML section, with its type and default."""

    name: str
    kind: ValueType[T]
    default: str | tuple[str, ...] | None
    """Default as text, in the same syntax as in a file; None if the option has no default."""


@dataclass(slots=True)
class ProblemCollector:
    """Collects the problems and warnings of one file, and resolves placeholders in its values."""

    folder: pathlib.Path
    """Directory against which relative paths in values are resolved."""
    providers: ConfigTransformer
    lenient: bool = False
    """Report unknown keys as warnings instead of errors (`mm2.properties`, as in Java)."""
    warnings: list[ConfigProblem] = field(default_factory=list)
    problems: list[ConfigProblem] = field(default_factory=list)
    """Errors. A file with any error is refused."""

    def resolve_scalar_text(self, scalar: YamlScalar, key: str) -> ResolvedText | None:
        """Return the text of a YAML scalar with its placeholders resolved. Reports a problem and
        returns None if this fails."""
        if scalar.text is None:
            self.report_error(
                scalar.line, key, ("has no value (write '' for empty text, [] for an empty list)")
            )
            return None
        try:
            return self.providers.resolve_placeholders(scalar.text)
        except ProviderError as error:
            self.report_error(
                scalar.line, key, str(error), allowed=config_providers.ALLOWED_PLACEHOLDERS
            )
            return None

    def report_error(
        self,
        line: int,
        key: str,
        text: str,
        *,
        given: str | None = None,
        allowed: str | None = None,
        nearest: str | None = None,
    ) -> None:
        """Record an error at `key` on `line`. The file is refused once all its errors have been
        collected."""
        self.problems.append(
            ConfigProblem(
                line=line, key=key, text=text, given=given, allowed=allowed, nearest=nearest
            )
        )

    def report_warning(self, line: int, key: str, text: str, *, nearest: str | None = None) -> None:
        """Record a warning unless the same warning has already been recorded."""
        found = ConfigProblem(line=line, key=key, text=text, nearest=nearest)
        if found not in self.warnings:  # one property may be read for several client types
            self.warnings.append(found)

    def report_unknown_key(self, line: int, key: str, *, nearest: str | None) -> None:
        """Record an error for an unknown key, or a warning if unknown keys are allowed
        (`lenient`)."""
        if self.lenient:
            self.report_warning(line, key, "has no effect: unknown key", nearest=nearest)
        else:
            self.report_error(line, key, "is not a known key", nearest=nearest)


@dataclass(frozen=True, slots=True)
class UnvalidatedSettingText:
    """Text of a setting in a section that accepts arbitrary keys."""

    text: str = field(repr=False)
    secret: bool
    line: int


@dataclass(frozen=True, slots=True)
class _SettingTexts:
    """Text values of one setting in the file. `secret` is True if the setting's name indicates a
    secret, or if a config provider returned any of the values."""

    texts: tuple[str, ...] = field(repr=False)
    secret: bool
    line: int
    path: str

    @property
    def displayed_text(self) -> str:
        if self.secret:
            return config_errors.HIDDEN_VALUE
        return config_errors.redact_secrets_in_value(", ".join(self.texts))

    def format_effective_value(self, *, is_list: bool) -> PlainYaml:
        if self.secret:
            return config_errors.HIDDEN_VALUE
        texts = [config_errors.redact_secrets_in_value(each) for each in self.texts]
        return texts if is_list else texts[0].strip()


class SectionReader:
    """Reads one section of the file. A key that the section does not set is read from `defaults`.

    `path` is the section's name in messages. Problems in section `defaults` are reported only once,
    when that section itself is read.
    """

    def __init__(
        self,
        collector: ProblemCollector,
        section: YamlSection,
        *,
        path: str,
        defaults: YamlSection | None = None,
    ) -> None:
        self.collector = collector
        self.section = section
        self.path = path
        self.effective: dict[str, PlainYaml] = {}
        self._defaults = defaults
        self._muted_collector = ProblemCollector(collector.folder, collector.providers)
        self._known: set[str] = set()

    def get(self, option: ConfigOption[T]) -> T:
        """Return the setting's value or its default. If the value is invalid, report the problem
        and return the default."""
        assert option.default is not None, option.name
        value = self.get_required(option)
        if value is not None:
            return value
        return option.kind.parse(_get_default_texts(option.default))

    def get_required(self, option: ConfigOption[T]) -> T | None:
        """Return the setting's value. If it is missing or invalid, report the problem and return
        None."""
        self._known.add(option.name)
        entry = self._find_entry(option.name)
        inherited = entry is not None and self.section.get_entry(option.name) is None
        collector = self._muted_collector if inherited else self.collector
        given = self._read_option_value(option, entry, collector)
        if given is None:
            return None
        try:
            value = option.kind.parse(given.texts)
        except PatternError as error:
            reason = "is not a valid regular expression" if given.secret else error.reason
            shown = config_errors.HIDDEN_VALUE if given.secret else error.pattern
            collector.report_error(given.line, given.path, reason, given=shown)
            return None
        except RefusedValueError as error:
            collector.report_error(given.line, given.path, str(error), given=given.displayed_text)
            return None
        except (ValueError, OverflowError):
            allowed = option.kind.allowed
            collector.report_error(
                given.line,
                given.path,
                "is not allowed",
                given=given.displayed_text,
                allowed=allowed,
            )
            return None
        if isinstance(value, int) and not given.secret:
            self.effective[option.name] = value
        else:
            self.effective[option.name] = given.format_effective_value(is_list=option.kind.is_list)
        return value

    def get_optional(self, option: ConfigOption[T]) -> T | None:
        """Return the setting's value, or None if it is not set. If the value is invalid, report the
        problem and return None."""
        self._known.add(option.name)
        return self.get_required(option) if self._find_entry(option.name) is not None else None

    def read_nested_section(self, name: str) -> dict[str, UnvalidatedSettingText]:
        """Read a nested section that accepts arbitrary keys, each with a single text value. Reports
        problems."""
        self._known.add(name)
        entry = self.section.get_entry(name)
        path = f"{self.path}.{name}"
        section = None if entry is None else convert_to_section(self.collector, entry, path=path)
        if section is None:
            return {}
        found = {
            item.key: _read_entry_texts(self.collector, item, f"{path}.{item.key}")
            for item in section.entries
        }
        return {
            key: UnvalidatedSettingText(
                given.texts[0].strip(), secret=given.secret, line=given.line
            )
            for key, given in found.items()
            if given is not None
        }

    def find_entries_with_prefix(self, prefixes: tuple[str, ...]) -> list[tuple[str, YamlEntry]]:
        """Return the entries whose keys have one of these prefixes, each with its section's path.
        Entries of section `defaults` come first."""
        defaults = self._defaults.entries if self._defaults is not None else ()
        found = [(_DEFAULTS_SECTION, entry) for entry in defaults]
        found += [(self.path, entry) for entry in self.section.entries]
        taken = [(path, entry) for path, entry in found if entry.key.startswith(prefixes)]
        self._known.update(entry.key for _, entry in taken)
        return taken

    def get_line(self, name: str) -> int:
        """Return the line of the setting, or the line of the section if the setting is not set."""
        entry = self._find_entry(name)
        return self.section.line if entry is None else entry.line

    def warn_if_key_set(self, name: str, text: str) -> None:
        """Record a warning about this key if the section itself sets it, but not if only section
        `defaults` does."""
        entry = self.section.get_entry(name)
        if entry is not None:
            self.collector.report_warning(entry.line, f"{self.path}.{name}", text)

    def accept_remaining_keys(
        self, *, refused: Mapping[str, str], families: Mapping[str, str]
    ) -> None:
        """Accept all remaining keys of the section and of `defaults`; each must have a single
        value."""
        known = self._known | set(refused)
        self._accept_matching_entries(
            lambda name: (
                name not in known and _find_refusal_reason_by_prefix(name, families) is None
            )
        )

    def accept_keys_with_prefix(self, prefixes: tuple[str, ...]) -> None:
        """Accept all keys with these prefixes; each must have a single value."""
        self._accept_matching_entries(lambda name: name.startswith(prefixes))

    def _accept_matching_entries(self, wanted: Callable[[str], bool]) -> None:
        for name, entry in self.merge_entries().items():
            if wanted(name):
                self._known.add(name)
                inherited = self.section.get_entry(name) is None
                collector = self._muted_collector if inherited else self.collector
                given = _read_entry_texts(collector, entry, f"{self.path}.{name}")
                if given is not None:
                    self.effective[name] = given.format_effective_value(is_list=False)

    def merge_entries(self) -> dict[str, YamlEntry]:
        """Return the entries of the section and of `defaults` by key. The section takes
        precedence."""
        behind = self._defaults.entries if self._defaults is not None else ()
        return {each.key: each for each in (*behind, *self.section.entries)}

    def report_unread_keys(
        self, *, refused: Mapping[str, str], families: Mapping[str, str] | None = None
    ) -> None:
        """Report every key of the section that was not read, either as refused or as unknown.

        `refused` maps refused keys to the reasons, and `families` maps prefixes of refused keys to
        the reasons.
        """
        for entry in self.section.entries:
            if entry.key in self._known:
                continue
            path = f"{self.path}.{entry.key}" if self.path else entry.key
            reason = refused.get(entry.key) or _find_refusal_reason_by_prefix(
                entry.key, families or {}
            )
            if reason is not None:
                self.collector.report_error(entry.line, path, reason)
            else:
                nearest = config_errors.find_nearest_name(entry.key, self._known | set(refused))
                self.collector.report_unknown_key(entry.line, path, nearest=nearest)

    def _find_entry(self, name: str) -> YamlEntry | None:
        own = self.section.get_entry(name)
        if own is None and self._defaults is not None:
            return self._defaults.get_entry(name)
        return own

    def _read_option_value(
        self, option: ConfigOption[T], entry: YamlEntry | None, collector: ProblemCollector
    ) -> _SettingTexts | None:
        path = f"{self.path}.{option.name}" if self.path else option.name
        if entry is not None:
            return _read_entry_texts(collector, entry, path, is_list=option.kind.is_list)
        if option.default is None:
            text = f"{option.name} is missing"
            collector.report_error(self.section.line, self.path, text, allowed=option.kind.allowed)
            return None
        return _SettingTexts(
            _get_default_texts(option.default), secret=False, line=self.section.line, path=path
        )


def _read_entry_texts(
    collector: ProblemCollector, entry: YamlEntry, path: str, *, is_list: bool = False
) -> _SettingTexts | None:
    node = entry.value
    if isinstance(node, YamlScalar):
        resolved = collector.resolve_scalar_text(node, path)
        if resolved is None:
            return None
        texts = _split_list(resolved.text) if is_list else (resolved.text,)
        secret = resolved.is_secret or config_errors.is_sensitive_key(entry.key)
        return _SettingTexts(texts, secret=secret, line=entry.line, path=path)
    if is_list and isinstance(node, YamlList):
        return _read_list_items(collector, node, path)
    expected = "a list" if is_list else "a single value"
    collector.report_error(entry.line, path, f"must be {expected}, not a {_describe_node(node)}")
    return None


def _read_list_items(
    collector: ProblemCollector, node: YamlList, path: str
) -> _SettingTexts | None:
    found: list[ResolvedText] = []
    for item in node.items:
        if not isinstance(item, YamlScalar):
            collector.report_error(
                item.line,
                path,
                f"must be a list of strings, but contains a {_describe_node(item)}",
            )
            return None
        resolved = collector.resolve_scalar_text(item, path)
        if resolved is None:
            return None
        found.append(resolved)
    return _SettingTexts(
        tuple(item.text for item in found),
        secret=any(item.is_secret for item in found),
        line=node.line,
        path=path,
    )


def _get_default_texts(default: str | tuple[str, ...]) -> tuple[str, ...]:
    return default if isinstance(default, tuple) else (default,)


def convert_to_section(
    collector: ProblemCollector, entry: YamlEntry, *, path: str
) -> YamlSection | None:
    """Return the entry's value as a section. An entry without a value is treated as an empty
    section. If the value is not a section, report the problem and return None."""
    node = entry.value
    if isinstance(node, YamlSection):
        return node
    if isinstance(node, YamlScalar) and node.text is None:
        return YamlSection(entries=(), line=entry.line)
    collector.report_error(
        entry.line, path, f"must be a section of keys, not a {_describe_node(node)}"
    )
    return None


def _find_refusal_reason_by_prefix(name: str, families: Mapping[str, str]) -> str | None:
    return next((why for prefix, why in families.items() if name.startswith(prefix)), None)


def _split_list(text: str) -> tuple[str, ...]:
    """Split a list as `ConfigDef` does: items are trimmed, and empty text is an empty list."""
    stripped = text.strip()
    return tuple(item.strip() for item in stripped.split(",")) if stripped else ()


def _describe_node(node: YamlNode) -> str:
    if isinstance(node, YamlSection):
        return "section"
    return "list" if isinstance(node, YamlList) else "single value"
