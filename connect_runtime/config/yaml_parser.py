"""Parses YAML configuration files into nodes with line numbers. Every scalar is a string.

PyYAML parses the file, but its type detection is disabled: `topics: 1.10` is the string "1.10", and
`no` is the string "no". Kafka's config types interpret the strings later. Constructs that other
loaders accept silently are reported as problems: duplicate keys, keys that are not strings,
multiple documents, and aliases that are recursive or expand to too many values. Deep nesting is a
problem too, because PyYAML's parse time grows quadratically with the depth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

_MAX_NODES = 100_000
_MAX_DEPTH = 50
_MERGE_TAG = "tag:yaml.org,2002:merge"
_NULLS = ("", "~", "null", "Null", "NULL")
_SIGN_BY_ERROR = {
    "undefined alias": "*",
    "duplicate anchor": "&",
    "undefined tag handle": "!",
    "duplicate tag handle": "!",
}
"""Maps PyYAML errors to the special character at the start of an unquoted value that causes them.
Messages name this character and omit PyYAML's details, which may contain a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlScalar:
    """A YAML scalar. `text` is None for an empty value, `~` or `null` (unquoted)."""

    text: str | None = field(repr=False)
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlList:
    """A YAML sequence."""

    items: tuple[YamlNode, ...]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlEntry:
    """A key of a YAML mapping, with its value."""

    key: str
    line: int
    value: YamlNode


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlSection:
    """A YAML mapping in file order. Its keys are unique."""

    entries: tuple[YamlEntry, ...]
    line: int

    def get_entry(self, key: str) -> YamlEntry | None:
        return next((entry for entry in self.entries if entry.key == key), None)


YamlNode = YamlScalar | YamlList | YamlSection


@dataclass(frozen=True, slots=True)
class YamlProblem:
    """A problem in a YAML file. Line numbers start at 1."""

    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlDocument:
    """A parsed YAML file. `root` is None if the file is empty or its syntax is invalid."""

    root: YamlNode | None
    problems: tuple[YamlProblem, ...]


def parse_yaml(text: str) -> YamlDocument:
    """Parse YAML text. Never raises; errors are in the document's `problems`."""
    try:
        nodes = list(yaml.compose_all(text, Loader=_DepthLimitedLoader))
    except yaml.YAMLError as error:
        return YamlDocument(root=None, problems=(_describe_syntax_error(error),))
    except _NestingTooDeepError as error:
        problem = YamlProblem(error.line, f"is nested deeper than {_MAX_DEPTH} levels")
        return YamlDocument(root=None, problems=(problem,))
    if len(nodes) > 1:
        line = nodes[1].start_mark.line + 1
        return YamlDocument(
            root=None,
            problems=(
                YamlProblem(
                    line, ("starts a second YAML document, but only one document is allowed")
                ),
            ),
        )
    if not nodes or nodes[0] is None:
        return YamlDocument(root=None, problems=())
    reader = _NodeReader()
    try:
        root = reader.read_node(nodes[0])
    except _AliasExplosionError as error:
        problem = YamlProblem(error.line, "aliases are recursive or expand to too many values")
        return YamlDocument(root=None, problems=(problem,))
    return YamlDocument(root=root, problems=tuple(sorted(reader.problems, key=lambda p: p.line)))


def iterate_scalar_values(
    node: YamlNode | None, *, key: str = ""
) -> Iterator[tuple[int, str, str]]:
    """Yield line, dotted key and text of each scalar in a YAML tree."""
    match node:
        case YamlScalar(text=str(text), line=line):
            yield line, key, text
        case YamlList(items=items):
            for item in items:
                yield from iterate_scalar_values(item, key=key)
        case YamlSection(entries=entries):
            for entry in entries:
                yield from iterate_scalar_values(
                    entry.value, key=f"{key}.{entry.key}" if key else entry.key
                )


def format_yaml(tree: object) -> str:
    """Format dicts, lists, strings and numbers as YAML. Keys keep their order."""
    return str(
        yaml.safe_dump(
            tree, sort_keys=False, default_flow_style=False, allow_unicode=True, width=1_000
        )
    )


class _NestingTooDeepError(Exception):
    """Raised if YAML is nested deeper than `_MAX_DEPTH` levels."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _DepthLimitedLoader(yaml.SafeLoader):
    """YAML loader that stops at a nesting depth of `_MAX_DEPTH`, before it scans deeper levels."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _NestingTooDeepError(self.line + 1)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


class _AliasExplosionError(Exception):
    """Raised if YAML aliases are recursive or expand to too many nodes."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _NodeReader:
    """Converts PyYAML nodes, and collects problems in `problems`."""

    def __init__(self) -> None:
        self.problems: list[YamlProblem] = []
        self._open: set[int] = set()
        self._count = 0

    def read_node(self, node: Any) -> YamlNode:
        line = node.start_mark.line + 1
        self._count += 1
        if self._count > _MAX_NODES or id(node) in self._open:
            raise _AliasExplosionError(line)
        if node.tag.startswith("!"):
            self._add_problem(line, f"has a tag: {_get_quoting_hint('!')}")
        self._open.add(id(node))
        found = self._convert_node(node, line)
        self._open.discard(id(node))
        return found

    def _convert_node(self, node: Any, line: int) -> YamlNode:
        if isinstance(node, yaml.ScalarNode):
            empty = node.style is None and node.value in _NULLS
            return YamlScalar(text=None if empty else node.value, line=line)
        if isinstance(node, yaml.SequenceNode):
            return YamlList(items=tuple(self.read_node(item) for item in node.value), line=line)
        assert isinstance(node, yaml.MappingNode), node
        return YamlSection(entries=self._read_mapping_entries(node), line=line)

    def _read_mapping_entries(self, node: Any) -> tuple[YamlEntry, ...]:
        entries: dict[str, YamlEntry] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == _MERGE_TAG or not isinstance(key_node, yaml.ScalarNode):
                self._add_problem(line, "keys must be plain text (merge keys are not supported)")
                continue
            key = key_node.value
            if key in entries:
                first = entries[key].line
                self._add_problem(line, f"duplicate key {key!r}, first defined on line {first}")
                continue
            entries[key] = YamlEntry(key=key, line=line, value=self.read_node(value_node))
        return tuple(entries.values())

    def _add_problem(self, line: int, text: str) -> None:
        self.problems.append(YamlProblem(line, text))


def _describe_syntax_error(error: yaml.YAMLError) -> YamlProblem:
    """Describe a YAML syntax error without PyYAML's excerpt of the line, which may contain a
    password."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        words = [_explain_parser_error(part) for part in (error.context, error.problem) if part]
        line = mark.line + 1 if mark is not None else 1
        return YamlProblem(line, "is not valid YAML: " + ", ".join(words))
    return YamlProblem(1, "is not valid YAML: it contains characters that YAML does not allow")


def _explain_parser_error(message: str) -> str:
    found = next((words for words in _SIGN_BY_ERROR if words in message), None)
    return (
        message if found is None else f"found {found}: {_get_quoting_hint(_SIGN_BY_ERROR[found])}"
    )


def _get_quoting_hint(sign: str) -> str:
    return f"a value that begins with {sign} must be quoted"
