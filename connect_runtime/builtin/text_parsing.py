"""What a header's text probably means (Java's Values.parseString).

Numbers take the smallest type that holds them; `true`, `false`, `null`, lists and maps are read,
dates, times and timestamps recognised, inside quotes too. Whatever makes no sense is a text, and
so is what only begins like a number: of `12:30` Java keeps the 12.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Sequence
from typing import Any

from connect_runtime.api import logical, schema, structs
from connect_runtime.builtin import java_text

Found = schema.SchemaAndValue | None
"""None where the text says null."""

_TOKEN = re.compile(r'(?:[^\\:,{}\[\]"]++|\\.|\\\Z)++|[:,{}\[\]"]', re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]{1,9})?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_WORDS: dict[str, Found] = {
    "null": None,
    "true": schema.SchemaAndValue(schema.BOOLEAN_SCHEMA, True),
    "false": schema.SchemaAndValue(schema.BOOLEAN_SCHEMA, False),
}
_WHOLE = (
    (8, schema.INT8_SCHEMA),
    (16, schema.INT16_SCHEMA),
    (32, schema.INT32_SCHEMA),
    (64, schema.INT64_SCHEMA),
)
_RANKS = (
    schema.Type.INT8,
    schema.Type.INT16,
    schema.Type.INT32,
    schema.Type.INT64,
    schema.Type.FLOAT32,
    schema.Type.FLOAT64,
)
_FLOATS = (schema.Type.FLOAT32, schema.Type.FLOAT64)
_WHOLE_DIGITS_MAX = 19
_DEPTH_MAX = 100


class _NoValueError(Exception):
    """The text is no list or map after all."""


def parse(text: str) -> schema.SchemaAndValue:
    """Never fails: what is nothing else is a STRING, unchanged."""
    word = text.strip()
    if word in _WORDS:
        return _WORDS[word] or schema.NOTHING
    if not word.startswith(("[", "{")):
        found = temporal(word) or number(word)
        return found or schema.SchemaAndValue(schema.STRING_SCHEMA, text)
    try:
        return _Parser(_TOKEN.findall(text)).value(0) or schema.NOTHING
    except _NoValueError:
        return schema.SchemaAndValue(schema.STRING_SCHEMA, text)


class _Parser:
    """Goes through the tokens once, from left to right."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def value(self, depth: int) -> Found:
        if depth > _DEPTH_MAX:
            raise _NoValueError
        if self._take('"'):
            return self._quoted()
        if self._take("["):
            return self._array(depth)
        if self._take("{"):
            return self._map(depth)
        found = self._temporal_of_several()
        if found is not None:
            return found
        word = self._peek()
        self._at += 1
        if word in _WORDS:
            return _WORDS[word]
        found = temporal(word) or number(word)
        if found is None:
            raise _NoValueError
        return found

    def _peek(self) -> str:
        """The next token that is not blank, trimmed."""
        while self._at < len(self._tokens):
            token = self._tokens[self._at].strip()
            if token:
                return token
            self._at += 1
        raise _NoValueError

    def _take(self, expected: str) -> bool:
        found = self._peek() == expected
        self._at += found
        return found

    def _quoted(self) -> schema.SchemaAndValue:
        start = self._at
        while self._at < len(self._tokens) and self._tokens[self._at] != '"':
            self._at += 1
        content = "".join(self._tokens[start : self._at])
        self._at += 1
        return temporal(content) or schema.SchemaAndValue(schema.STRING_SCHEMA, content)

    def _temporal_of_several(self) -> Found:
        """Colons are tokens of their own: a time has five."""
        self._peek()
        joined = "".join(self._tokens[self._at : self._at + 5]).strip()
        found = temporal(joined)
        if found is not None:
            self._at += 5
        return found

    def _array(self, depth: int) -> schema.SchemaAndValue:
        items: list[Any] = []
        element = _Common()
        while not self._take("]"):
            found = self.value(depth + 1)
            element.add(found)
            items.append(None if found is None else found.value)
            if self._peek() != "]" and not self._take(","):
                raise _NoValueError
        described = schema.Schema(type=schema.Type.ARRAY, elements=element.schema)
        return schema.SchemaAndValue(described, [element.aligned(each) for each in items])

    def _map(self, depth: int) -> schema.SchemaAndValue:
        entries: list[tuple[Any, Any]] = []
        keys, values = _Common(), _Common()
        while not self._take("}"):
            key = self.value(depth + 1)
            if key is None or not self._take(":"):
                raise _NoValueError
            value = self.value(depth + 1)
            self._take(",")
            keys.add(key)
            values.add(value)
            entries.append((_as_key(key.value), None if value is None else value.value))
        described = schema.Schema(
            type=schema.Type.MAP,
            keys=keys.schema,
            elements=values.schema if keys.schema is not None else None,
        )
        aligned = {keys.aligned(key): values.aligned(value) for key, value in entries}
        return schema.SchemaAndValue(described, aligned)


class _Common:
    """The one schema that all items of a list have, numbers the widest of theirs; or none."""

    def __init__(self) -> None:
        self.schema: schema.Schema | None = None
        self._compatible = True

    def add(self, found: Found) -> None:
        if found is None or found.schema is None or not self._compatible:
            return
        if self.schema is None or self.schema.type is found.schema.type:
            self.schema = found.schema
            return
        both = (self.schema, found.schema)
        self._compatible = all(each.type in _RANKS for each in both)
        widest = max(both, key=_rank)
        self.schema = widest if self._compatible else None

    def aligned(self, value: Any) -> Any:
        """The value as one of the common schema: a whole number among floats is one of them.

        Null among others does not fit, so that the whole stays a text: as in Java.
        """
        if self.schema is None:
            return value
        if self.schema.type in _FLOATS and isinstance(value, int):
            narrow = self.schema.type is schema.Type.FLOAT32
            return java_text.narrowed(float(value)) if narrow else float(value)
        if value is None or not structs.of_right_class(self.schema, value):
            raise _NoValueError
        return value


def _rank(described: schema.Schema) -> int:
    return _RANKS.index(described.type) if described.type in _RANKS else -1


def _as_key(value: Any) -> Any:
    if isinstance(value, dict):
        raise _NoValueError
    return tuple(_as_key(each) for each in value) if isinstance(value, list) else value


def number(text: str) -> Found:
    """The smallest whole type, FLOAT32 or FLOAT64 for fractions, Decimal beyond; None if none."""
    if not _NUMBER.fullmatch(text):
        return None
    try:
        exact = decimal.Decimal(text)
    except decimal.InvalidOperation:
        return None
    whole = _whole(exact)
    if whole is not None:
        return whole
    _, _, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    if exponent != 0:
        narrow = java_text.narrowed(float(exact))
        if math.isfinite(narrow):
            return schema.SchemaAndValue(schema.FLOAT32_SCHEMA, narrow)
        if math.isfinite(float(exact)):
            return schema.SchemaAndValue(schema.FLOAT64_SCHEMA, float(exact))
    return schema.SchemaAndValue(logical.decimal_schema(-exponent), exact)


def _whole(exact: decimal.Decimal) -> Found:
    """Looks at the size first: `1e999999999` is not written out."""
    if exact.adjusted() >= _WHOLE_DIGITS_MAX or exact != exact.to_integral_value():
        return None
    value = int(exact)
    for bits, described in _WHOLE:
        if -(1 << bits - 1) <= value < 1 << bits - 1:
            return schema.SchemaAndValue(described, value)
    return None


def temporal(text: str) -> Found:
    """A date, a time or a timestamp in UTC; None if it is none of them, or there is no such."""
    text = text.replace("\\:", ":")
    try:
        if _TIMESTAMP.fullmatch(text):
            instant = datetime.datetime.fromisoformat(text)
            return schema.SchemaAndValue(logical.TIMESTAMP_SCHEMA, instant)
        if _DATE.fullmatch(text):
            date = datetime.date.fromisoformat(text)
            return schema.SchemaAndValue(logical.DATE_SCHEMA, date)
        if _TIME.fullmatch(text):
            time = datetime.time.fromisoformat(text[:-1])
            return schema.SchemaAndValue(logical.TIME_SCHEMA, time)
    except ValueError:
        return None
    return None
