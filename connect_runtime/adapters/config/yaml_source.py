"""YAML as configuration: every scalar is text, every key knows its line, nothing is guessed.

PyYAML parses; its typing rules stay out (`topics: 1.10` is the text "1.10", `no` is the text "no"),
because Kafka's own option types read the text later. What other loaders accept silently is a
problem here: duplicate keys, keys that are not text, several documents, aliases that hold
themselves or explode, and nesting that no configuration needs, which costs PyYAML the square of its
depth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

_NODES_MAX = 100_000
_DEPTH_MAX = 50
_MERGE_TAG = "tag:yaml.org,2002:merge"
_NULLS = ("", "~", "null", "Null", "NULL")
_SIGNS = {
    "undefined alias": "*",
    "duplicate anchor": "&",
    "undefined tag handle": "!",
    "duplicate tag handle": "!",
}
"""What PyYAML says of texts that begin with a sign of YAML's own; it quotes them, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A single value. `text` is None where the file has nothing, `~` or `null` (unquoted)."""

    text: str | None = field(repr=False)
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    key: str
    line: int
    value: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A mapping, in the file's order; each key once."""

    entries: tuple[Entry, ...]
    line: int

    def get(self, key: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.key == key), None)


Node = Scalar | Listing | Section


@dataclass(frozen=True, slots=True)
class YamlProblem:
    """What is wrong with the file as YAML. Lines count from 1."""

    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """`root` is None when the file is empty or its syntax is broken."""

    root: Node | None
    problems: tuple[YamlProblem, ...]


def parse(text: str) -> Document:
    """Never raises: what cannot be read is in `problems`."""
    try:
        nodes = list(yaml.compose_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        return Document(root=None, problems=(_syntax_problem(error),))
    except _TooDeep as error:
        problem = YamlProblem(error.line, f"is nested deeper than {_DEPTH_MAX} levels")
        return Document(root=None, problems=(problem,))
    if len(nodes) > 1:
        line = nodes[1].start_mark.line + 1
        return Document(root=None, problems=(YamlProblem(line, "a second document begins here"),))
    if not nodes or nodes[0] is None:
        return Document(root=None, problems=())
    reader = _Reader()
    try:
        root = reader.read(nodes[0])
    except _Endless as error:
        problem = YamlProblem(error.line, "aliases repeat themselves without end")
        return Document(root=None, problems=(problem,))
    return Document(root=root, problems=tuple(sorted(reader.problems, key=lambda p: p.line)))


def render(tree: object) -> str:
    """Plain data (dicts, lists, text, numbers) as YAML, in the given order."""
    return str(
        yaml.safe_dump(
            tree, sort_keys=False, default_flow_style=False, allow_unicode=True, width=1_000
        )
    )


class _TooDeep(Exception):
    """More than `_DEPTH_MAX` levels."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _Loader(yaml.SafeLoader):
    """Gives up at `_DEPTH_MAX` levels, before it has scanned what is nested deeper."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise _TooDeep(self.line + 1)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


class _Endless(Exception):
    """Aliases that hold themselves, or multiply beyond any sensible size."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _Reader:
    """From PyYAML's nodes to ours; `problems` grows on the way."""

    def __init__(self) -> None:
        self.problems: list[YamlProblem] = []
        self._open: set[int] = set()
        self._count = 0

    def read(self, node: Any) -> Node:
        line = node.start_mark.line + 1
        self._count += 1
        if self._count > _NODES_MAX or id(node) in self._open:
            raise _Endless(line)
        if node.tag.startswith("!"):
            self._report(line, f"has a tag: {_to_be_quoted('!')}")
        self._open.add(id(node))
        found = self._read(node, line)
        self._open.discard(id(node))
        return found

    def _read(self, node: Any, line: int) -> Node:
        if isinstance(node, yaml.ScalarNode):
            empty = node.style is None and node.value in _NULLS
            return Scalar(text=None if empty else node.value, line=line)
        if isinstance(node, yaml.SequenceNode):
            return Listing(items=tuple(self.read(item) for item in node.value), line=line)
        assert isinstance(node, yaml.MappingNode), node
        return Section(entries=self._entries(node), line=line)

    def _entries(self, node: Any) -> tuple[Entry, ...]:
        entries: dict[str, Entry] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == _MERGE_TAG or not isinstance(key_node, yaml.ScalarNode):
                self._report(line, "a key has to be plain text (merge keys are not supported)")
                continue
            key = key_node.value
            if key in entries:
                first = entries[key].line
                self._report(line, f"the key {key!r} is here twice, first in line {first}")
                continue
            entries[key] = Entry(key=key, line=line, value=self.read(value_node))
        return tuple(entries.values())

    def _report(self, line: int, text: str) -> None:
        self.problems.append(YamlProblem(line, text))


def _syntax_problem(error: yaml.YAMLError) -> YamlProblem:
    """PyYAML quotes the line, which may hold a password: only its own words are kept."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        words = [_own_words(part) for part in (error.context, error.problem) if part]
        line = mark.line + 1 if mark is not None else 1
        return YamlProblem(line, "is not YAML: " + ", ".join(words))
    return YamlProblem(1, "is not YAML: it holds characters that no text file has")


def _own_words(said: str) -> str:
    found = next((words for words in _SIGNS if words in said), None)
    return said if found is None else f"found {found}: {_to_be_quoted(_SIGNS[found])}"


def _to_be_quoted(sign: str) -> str:
    return f"a text that begins with {sign} has to be in quotes"
