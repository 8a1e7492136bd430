"""Parser and writer for Java `.properties` text, compatible with `java.util.Properties`.

Comments, continuation lines, the three separators and escapes follow `Properties.load`. The caller
decodes the file: Kafka's `Utils.loadProps`, which reads `mm2.properties`, uses ISO-8859-1, whereas
`FileConfigProvider` uses UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_BLANKS = " \t\f"
_ESCAPE_PATTERN = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(u)|(.)|$)", re.DOTALL)
_ESCAPED_CHARS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SURROGATE_PATTERN = re.compile("[\ud800-\udfff]")
_ESCAPE_LETTERS = {char: name for name, char in _ESCAPED_CHARS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaProperty:
    """A key-value pair of a properties file."""

    key: str
    value: str = field(repr=False)
    line: int
    """Line on which the pair begins, starting at 1."""


def parse_properties(text: str) -> dict[str, str]:
    """Parse properties text. If a key occurs several times, its last value is used, as in Java.

    Raises `ValueError` with the line number (never the content) for a malformed `\\uXXXX`.
    """
    return {found.key: found.value for found in parse_property_entries(text)}


def parse_property_entries(text: str) -> tuple[JavaProperty, ...]:
    """Parse properties text into all pairs in file order, including duplicate keys.

    Raises `ValueError` as `parse_properties` does.
    """
    found: list[JavaProperty] = []
    for number, line in _join_logical_lines(text):
        key, value = _split_property_line(line)
        try:
            pair = JavaProperty(
                key=_unescape_property_text(key), value=_unescape_property_text(value), line=number
            )
        except ValueError:
            raise ValueError(f"line {number}: \\u needs four hexadecimal digits") from None
        found.append(pair)
    return tuple(found)


def find_non_ascii_lines(text: str) -> list[int]:
    """Return the numbers of all non-comment lines with non-ASCII characters. Such characters may be
    misread: Kafka reads the file as ISO-8859-1, but most editors save UTF-8."""
    return [
        number
        for number, line in enumerate(text.split("\n"), 1)
        if not line.isascii() and line.lstrip(_BLANKS)[:1] not in ("#", "!")
    ]


def format_property(key: str, value: str) -> str:
    """Format a key-value pair as one ASCII line that parses to the same pair."""
    escaped = _escape_property_text(key, all_blanks=True, also="=:#!")
    return f"{escaped} = {_escape_property_text(value)}" if value else f"{escaped} ="


def _join_logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join continuation lines, and skip comments and blank lines.

    As in Java, a line that contains only the continuation character (backslash) is ignored: the
    next line begins a new pair or comment. If it is the last line of the text, it yields an empty
    line, which is parsed as a pair with an empty key.
    """
    pending, started, continued = "", 0, False
    lines = re.split(r"\r\n|\r|\n", text)
    for number, natural in enumerate(lines[:-1] if not lines[-1] else lines, 1):
        line = natural.lstrip(_BLANKS)
        if not pending and (not line or line[0] in "#!"):
            continued = False
            continue
        started = started if pending else number
        backslashes = len(line) - len(line.rstrip("\\"))
        continued = backslashes % 2 == 1
        if continued:
            pending += line[:-1]
            continue
        yield started, pending + line
        pending = ""
    if pending or (continued and not text.endswith("\r\n")):
        yield started, pending


def _split_property_line(line: str) -> tuple[str, str]:
    at = 0
    while at < len(line) and line[at] not in f"=:{_BLANKS}":
        at += 2 if line[at] == "\\" else 1
    key, rest = line[:at], line[at:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return key, rest


def _unescape_property_text(text: str) -> str:
    def replace_escape(match: re.Match[str]) -> str:
        code, broken, char = match.groups()
        if broken:
            raise ValueError(match.start())
        if code:
            return chr(int(code, 16))
        return _ESCAPED_CHARS.get(char, char) if char else ""

    found = _ESCAPE_PATTERN.sub(replace_escape, text)
    if _SURROGATE_PATTERN.search(
        found
    ):  # two escapes may form one character (UTF-16 surrogate pair)
        return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return found


def _escape_property_text(text: str, *, all_blanks: bool = False, also: str = "") -> str:
    return "".join(
        _escape_char(char, blank=all_blanks or at == 0, also=also) for at, char in enumerate(text)
    )


def _escape_char(char: str, *, blank: bool, also: str) -> str:
    if char in _ESCAPE_LETTERS:
        return f"\\{_ESCAPE_LETTERS[char]}"
    if char == "\\" or char in also or (char == " " and blank):
        return f"\\{char}"
    if " " <= char <= "~":
        return char
    return "".join(f"\\u{unit:04x}" for unit in _encode_utf16_units(char))


def _encode_utf16_units(char: str) -> Iterable[int]:
    data = char.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2))
