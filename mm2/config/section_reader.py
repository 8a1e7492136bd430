"""Reads one YAML section by a table of options and collects every problem.

A key is read, refused by name, or unknown; `finish` reports the unknown ones. What was read is
kept as text in `effective`, secrets already hidden, for `mm2 config show`.
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
from connect_runtime.config.yaml_file import YamlEntry, YamlList, YamlNode, YamlScalar, YamlSection
from mm2.config.value_types import RefusedValueError, ValueType

T = TypeVar("T")

_DEFAULTS_SECTION = "defaults"

PlainYaml = str | int | list[str] | dict[str, str]
AnyValueType = ValueType[object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOption(Generic[T]):
    """One setting. `default` is text as a user would write it; None: the setting is required."""

    name: str
    kind: ValueType[T]
    default: str | tuple[str, ...] | None


@dataclass(slots=True)
class ProblemCollector:
    """What all readers of one file share: its problems, and where values come from.

    `warnings` are to be told, and do not keep the file from being used. Relative paths in values
    start at `folder`. `lenient`: unknown keys are warned of, as Java accepts anything.
    """

    folder: pathlib.Path
    providers: ConfigTransformer
    lenient: bool = False
    warnings: list[ConfigProblem] = field(default_factory=list)
    problems: list[ConfigProblem] = field(default_factory=list)

    def resolve(self, scalar: YamlScalar, key: str) -> ResolvedText | None:
        """The scalar's text with placeholders filled; None after a problem was noted."""
        if scalar.text is None:
            self.note(scalar.line, key, "has no value (write '' for an empty text, [] for a list)")
            return None
        try:
            return self.providers.resolve(scalar.text)
        except ProviderError as error:
            self.note(scalar.line, key, str(error), allowed=config_providers.ALLOWED_PLACEHOLDERS)
            return None

    def note(
        self,
        line: int,
        key: str,
        text: str,
        *,
        given: str | None = None,
        allowed: str | None = None,
        nearest: str | None = None,
    ) -> None:
        """A mistake at `key` in `line`: the file is refused, and all mistakes are told at once."""
        self.problems.append(
            ConfigProblem(
                line=line, key=key, text=text, given=given, allowed=allowed, nearest=nearest
            )
        )

    def warn(self, line: int, key: str, text: str, *, nearest: str | None = None) -> None:
        """What is told and refuses nothing; the same thing once."""
        found = ConfigProblem(line=line, key=key, text=text, nearest=nearest)
        if found not in self.warnings:  # one property may be read for several kinds of clients
            self.warnings.append(found)

    def note_unknown(self, line: int, key: str, *, nearest: str | None) -> None:
        """A mistake; in a lenient file (`mm2.properties`) a warning, as in Java."""
        if self.lenient:
            self.warn(line, key, "has no effect: is not a known key", nearest=nearest)
        else:
            self.note(line, key, "is not a known key", nearest=nearest)


@dataclass(frozen=True, slots=True)
class FreeKeyText:
    """One text of a section of free keys."""

    text: str = field(repr=False)
    secret: bool
    line: int


@dataclass(frozen=True, slots=True)
class _GivenTexts:
    """A setting's texts as found; `secret` when any came through a provider."""

    texts: tuple[str, ...] = field(repr=False)
    secret: bool
    line: int
    path: str

    @property
    def shown(self) -> str:
        return config_errors.HIDDEN_VALUE if self.secret else ", ".join(self.texts)

    def effective(self, *, is_list: bool) -> PlainYaml:
        if self.secret:
            return config_errors.HIDDEN_VALUE
        return list(self.texts) if is_list else self.texts[0].strip()


class SectionReader:
    """One section, and behind it the section of defaults, if there is one.

    `path` names the section in messages. Defaults are read as if they stood in the section, but
    their mistakes are only noted by whoever reads the section of defaults for its own sake.
    """

    def __init__(
        self,
        account: ProblemCollector,
        section: YamlSection,
        *,
        path: str,
        defaults: YamlSection | None = None,
    ) -> None:
        self.account = account
        self.section = section
        self.path = path
        self.effective: dict[str, PlainYaml] = {}
        self._defaults = defaults
        self._unheard = ProblemCollector(account.folder, account.providers)
        self._known: set[str] = set()

    def get(self, option: ConfigOption[T]) -> T:
        """The setting's value; after a mistake, which is noted, its default."""
        assert option.default is not None, option.name
        value = self.require(option)
        if value is not None:
            return value
        return option.kind.parse(_default_texts(option.default))

    def require(self, option: ConfigOption[T]) -> T | None:
        """The setting's value; None when it is missing or mistaken, which is noted."""
        self._known.add(option.name)
        entry = self._entry(option.name)
        inherited = entry is not None and self.section.get(option.name) is None
        account = self._unheard if inherited else self.account
        given = self._find(option, entry, account)
        if given is None:
            return None
        try:
            value = option.kind.parse(given.texts)
        except PatternError as error:
            reason = "is no usable expression" if given.secret else error.reason
            shown = config_errors.HIDDEN_VALUE if given.secret else error.pattern
            account.note(given.line, given.path, reason, given=shown)
            return None
        except RefusedValueError as error:
            account.note(given.line, given.path, str(error), given=given.shown)
            return None
        except (ValueError, OverflowError):
            allowed = option.kind.allowed
            account.note(
                given.line, given.path, "is not allowed", given=given.shown, allowed=allowed
            )
            return None
        if isinstance(value, int) and not given.secret:
            self.effective[option.name] = value
        else:
            self.effective[option.name] = given.effective(is_list=option.kind.is_list)
        return value

    def optional(self, option: ConfigOption[T]) -> T | None:
        """The setting's value; None when it is left out, or mistaken, which is noted."""
        self._known.add(option.name)
        return self.require(option) if self._entry(option.name) is not None else None

    def texts(self, name: str) -> dict[str, FreeKeyText]:
        """A section of free keys with one text each; mistakes are noted and left out."""
        self._known.add(name)
        entry = self.section.get(name)
        path = f"{self.path}.{name}"
        section = None if entry is None else as_section(self.account, entry, path=path)
        if section is None:
            return {}
        found = {
            item.key: _read_entry(self.account, item, f"{path}.{item.key}")
            for item in section.entries
        }
        return {
            key: FreeKeyText(given.texts[0].strip(), secret=given.secret, line=given.line)
            for key, given in found.items()
            if given is not None
        }

    def family(self, prefixes: tuple[str, ...]) -> list[tuple[str, YamlEntry]]:
        """Every entry whose key begins so, behind its section's path; the defaults' come first."""
        defaults = self._defaults.entries if self._defaults is not None else ()
        found = [(_DEFAULTS_SECTION, entry) for entry in defaults]
        found += [(self.path, entry) for entry in self.section.entries]
        taken = [(path, entry) for path, entry in found if entry.key.startswith(prefixes)]
        self._known.update(entry.key for _, entry in taken)
        return taken

    def line_of(self, name: str) -> int:
        """Where the setting stands; the section's own line when it is left to its default."""
        entry = self._entry(name)
        return self.section.line if entry is None else entry.line

    def warn_given(self, name: str, text: str) -> None:
        """Warn of this key if it stands in the section itself, not only in its defaults."""
        entry = self.section.get(name)
        if entry is not None:
            self.account.warn(entry.line, f"{self.path}.{name}", text)

    def take_rest(self, *, refused: Mapping[str, str], families: Mapping[str, str]) -> None:
        """Take every key that nobody knows, here and in the defaults, as one text each."""
        known = self._known | set(refused)
        self._take(lambda name: name not in known and _find_family(name, families) is None)

    def take_family(self, prefixes: tuple[str, ...]) -> None:
        """Take every key that begins so, as `take_rest`."""
        self._take(lambda name: name.startswith(prefixes))

    def _take(self, wanted: Callable[[str], bool]) -> None:
        for name, entry in self.each_entry().items():
            if wanted(name):
                self._known.add(name)
                inherited = self.section.get(name) is None
                account = self._unheard if inherited else self.account
                given = _read_entry(account, entry, f"{self.path}.{name}")
                if given is not None:
                    self.effective[name] = given.effective(is_list=False)

    def each_entry(self) -> dict[str, YamlEntry]:
        """By name, the section's own before the defaults'."""
        behind = self._defaults.entries if self._defaults is not None else ()
        return {each.key: each for each in (*behind, *self.section.entries)}

    def finish(
        self, *, refused: Mapping[str, str], families: Mapping[str, str] | None = None
    ) -> None:
        """Note every key that was not read.

        `refused` names keys that are known and not taken, with the reason; `families` does so by
        the beginning of a name.
        """
        for entry in self.section.entries:
            if entry.key in self._known:
                continue
            path = f"{self.path}.{entry.key}" if self.path else entry.key
            reason = refused.get(entry.key) or _find_family(entry.key, families or {})
            if reason is not None:
                self.account.note(entry.line, path, reason)
            else:
                nearest = config_errors.find_nearest_name(entry.key, self._known | set(refused))
                self.account.note_unknown(entry.line, path, nearest=nearest)

    def _entry(self, name: str) -> YamlEntry | None:
        own = self.section.get(name)
        if own is None and self._defaults is not None:
            return self._defaults.get(name)
        return own

    def _find(
        self, option: ConfigOption[T], entry: YamlEntry | None, account: ProblemCollector
    ) -> _GivenTexts | None:
        path = f"{self.path}.{option.name}" if self.path else option.name
        if entry is not None:
            return _read_entry(account, entry, path, is_list=option.kind.is_list)
        if option.default is None:
            text = f"{option.name} is missing"
            account.note(self.section.line, self.path, text, allowed=option.kind.allowed)
            return None
        return _GivenTexts(
            _default_texts(option.default), secret=False, line=self.section.line, path=path
        )


def _read_entry(
    account: ProblemCollector, entry: YamlEntry, path: str, *, is_list: bool = False
) -> _GivenTexts | None:
    node = entry.value
    if isinstance(node, YamlScalar):
        resolved = account.resolve(node, path)
        if resolved is None:
            return None
        texts = _split_list(resolved.text) if is_list else (resolved.text,)
        return _GivenTexts(texts, secret=resolved.secret, line=entry.line, path=path)
    if is_list and isinstance(node, YamlList):
        return _read_items(account, node, path)
    what = "a list" if is_list else "one value"
    account.note(entry.line, path, f"has to be {what}, not a {_describe_node(node)}")
    return None


def _read_items(account: ProblemCollector, node: YamlList, path: str) -> _GivenTexts | None:
    found: list[ResolvedText] = []
    for item in node.items:
        if not isinstance(item, YamlScalar):
            account.note(item.line, path, f"has to hold texts, not a {_describe_node(item)}")
            return None
        resolved = account.resolve(item, path)
        if resolved is None:
            return None
        found.append(resolved)
    return _GivenTexts(
        tuple(item.text for item in found),
        secret=any(item.secret for item in found),
        line=node.line,
        path=path,
    )


def _default_texts(default: str | tuple[str, ...]) -> tuple[str, ...]:
    return default if isinstance(default, tuple) else (default,)


def as_section(account: ProblemCollector, entry: YamlEntry, *, path: str) -> YamlSection | None:
    """The entry's section; an empty entry is an empty section. None after a noted problem."""
    node = entry.value
    if isinstance(node, YamlSection):
        return node
    if isinstance(node, YamlScalar) and node.text is None:
        return YamlSection(entries=(), line=entry.line)
    account.note(entry.line, path, f"has to be a section of keys, not a {_describe_node(node)}")
    return None


def _find_family(name: str, families: Mapping[str, str]) -> str | None:
    return next((why for prefix, why in families.items() if name.startswith(prefix)), None)


def _split_list(text: str) -> tuple[str, ...]:
    """As `ConfigDef` parses LIST: blanks around commas go, an empty text is an empty list."""
    stripped = text.strip()
    return tuple(item.strip() for item in stripped.split(",")) if stripped else ()


def _describe_node(node: YamlNode) -> str:
    if isinstance(node, YamlSection):
        return "section"
    return "list" if isinstance(node, YamlList) else "single value"
