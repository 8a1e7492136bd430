"""SimpleHeaderConverter: writes headers as text, and infers their type when reading (Java's
Values).

Writing produces JSON-like text with ISO-8601 dates in UTC (Java uses its own time zone). Reading
follows Values.parseString: a number is parsed as the smallest type that can represent it; `true`,
`false`, `null`, lists and maps are parsed; dates, times and timestamps are recognized, also inside
quotes. Any other text is a string, including text that only starts with a number (Java reads
`12:30` as 12), and text longer than `PARSED_LENGTH_MAX`.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from connect_runtime.api import logical_types, schema, structs
from connect_runtime.api.config_def import ConfigDef
from connect_runtime.api.converter import HeaderConverter
from connect_runtime.api.errors import DataError
from connect_runtime.api.schema import Schema, SchemaAndValue, SchemaType
from connect_runtime.api.structs import Struct
from connect_runtime.plugins import compatible_kafka_version, java_value_formatting
from connect_runtime.plugins.schema_expansion_limit import SchemaExpansionLimit

_MIDNIGHT = datetime.time()


def format_value(described: Schema | None, value: Any) -> str | None:
    """Format a header value as text; return None for null. Raises `DataError` for types unknown to
    Connect."""
    if value is None:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    return _ValueFormatter().format_value(described, value)


class _ValueFormatter:
    """Formats the values in one header. Strings are quoted in lists, maps and structs."""

    def __init__(self) -> None:
        self._expansion = SchemaExpansionLimit()

    def format_value(self, described: Schema | None, value: Any) -> str:
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            narrow = described is not None and described.type is SchemaType.FLOAT32
            return (
                java_value_formatting.format_float(value)
                if narrow
                else java_value_formatting.format_double(value)
            )
        if isinstance(value, (int, decimal.Decimal)):
            return str(value)
        if isinstance(value, str):
            return _quote_string(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return _quote_string(base64.b64encode(value).decode())
        if isinstance(value, (datetime.date, datetime.time)):
            return _format_temporal_value(value)
        return self._format_container(described, value)

    def _format_container(self, described: Schema | None, value: Any) -> str:
        if isinstance(value, (list, tuple)):
            element = None if described is None else described.elements
            texts: list[str] = []
            for each in value:  # a generator or comprehension would add a level to the stack
                texts.append(self.format_value(element, each))  # noqa: PERF401
            return f"[{','.join(texts)}]"
        pairs: list[str] = []
        if isinstance(value, Mapping):
            keys = None if described is None else described.keys
            values = None if described is None else described.elements
            for key, each in value.items():
                pairs.append(f"{self.format_value(keys, key)}:{self.format_value(values, each)}")
        elif isinstance(value, Struct):
            for field in value.schema.fields:
                if value.get_without_default(field.name) is None:
                    self._expansion.add_default_value(field.schema.default)
                text = self.format_value(field.schema, value.get(field.name))
                pairs.append(f"{_quote_string(field.name)}:{text}")
        else:
            raise DataError(f"Failed to serialize unexpected value type {type(value).__name__}")
        return f"{{{','.join(pairs)}}}"


def _quote_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _format_temporal_value(value: datetime.date | datetime.time) -> str:
    """Format a temporal value; a timestamp at midnight becomes a date, as in Java."""
    if isinstance(value, datetime.time):
        return f"{value.isoformat('milliseconds')}Z"
    if isinstance(value, datetime.datetime):
        utc = value.astimezone(datetime.UTC)
        if utc.time() != _MIDNIGHT:
            return f"{utc.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
        value = utc.date()
    return value.isoformat()


ParsedValue = SchemaAndValue | None
"""Schema and value parsed from a string; None if the string is `null`."""

_TOKEN = re.compile(r'(?:[^\\:,{}\[\]"]++|\\.|\\\Z)++|[:,{}\[\]"]', re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]{1,9})?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_KEYWORDS: dict[str, ParsedValue] = {
    "null": None,
    "true": SchemaAndValue(schema.BOOLEAN_SCHEMA, True),
    "false": SchemaAndValue(schema.BOOLEAN_SCHEMA, False),
}
_INTEGER_SCHEMAS = (
    (8, schema.INT8_SCHEMA),
    (16, schema.INT16_SCHEMA),
    (32, schema.INT32_SCHEMA),
    (64, schema.INT64_SCHEMA),
)
_NUMBER_TYPES_BY_WIDTH = (
    SchemaType.INT8,
    SchemaType.INT16,
    SchemaType.INT32,
    SchemaType.INT64,
    SchemaType.FLOAT32,
    SchemaType.FLOAT64,
)
_FLOAT_TYPES = (SchemaType.FLOAT32, SchemaType.FLOAT64)
_MAX_INTEGER_DIGITS = 19
_MAX_DEPTH = 100
PARSED_LENGTH_MAX = 65_536
"""Maximum number of characters in a header whose type is inferred; a longer header becomes a
STRING. Parsing takes a few microseconds per character, and a task converts its records
sequentially."""


class _NoValueError(Exception):
    """Raised if a header is not a valid list or map."""


def parse_value(text: str) -> SchemaAndValue:
    """Parse the text of a header. A header that is too long or not recognized becomes a STRING,
    unchanged."""
    if len(text) > PARSED_LENGTH_MAX:
        return SchemaAndValue(schema.STRING_SCHEMA, text)
    word = text.strip()
    if word in _KEYWORDS:
        return _KEYWORDS[word] or schema.NULL_SCHEMA_AND_VALUE
    if not word.startswith(("[", "{")):
        found = parse_temporal_value(word) or parse_number(word)
        return found or SchemaAndValue(schema.STRING_SCHEMA, text)
    try:
        return (
            _ValueParser(_TOKEN.findall(text)).parse_value_at_depth(0)
            or schema.NULL_SCHEMA_AND_VALUE
        )
    except _NoValueError:
        return SchemaAndValue(schema.STRING_SCHEMA, text)


class _ValueParser:
    """Recursive descent parser for header values. It works on tokens."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def parse_value_at_depth(self, depth: int) -> ParsedValue:
        if depth > _MAX_DEPTH:
            raise _NoValueError
        if self._accept_token('"'):
            return self._parse_quoted_text()
        if self._accept_token("["):
            return self._parse_array(depth)
        if self._accept_token("{"):
            return self._parse_map(depth)
        found = self._parse_temporal_tokens()
        if found is not None:
            return found
        word = self._peek_token()
        self._at += 1
        if word in _KEYWORDS:
            return _KEYWORDS[word]
        found = parse_temporal_value(word) or parse_number(word)
        if found is None:
            raise _NoValueError
        return found

    def _peek_token(self) -> str:
        """Return the next nonblank token, stripped of whitespace, without consuming it."""
        while self._at < len(self._tokens):
            token = self._tokens[self._at].strip()
            if token:
                return token
            self._at += 1
        raise _NoValueError

    def _accept_token(self, expected: str) -> bool:
        found = self._peek_token() == expected
        self._at += found
        return found

    def _parse_quoted_text(self) -> SchemaAndValue:
        start = self._at
        while self._at < len(self._tokens) and self._tokens[self._at] != '"':
            self._at += 1
        content = "".join(self._tokens[start : self._at])
        self._at += 1
        return parse_temporal_value(content) or SchemaAndValue(schema.STRING_SCHEMA, content)

    def _parse_temporal_tokens(self) -> ParsedValue:
        """Parse a date, time or timestamp from several tokens, because colons are separate
        tokens."""
        self._peek_token()
        joined = "".join(self._tokens[self._at : self._at + 5]).strip()
        found = parse_temporal_value(joined)
        if found is not None:
            self._at += 5
        return found

    def _parse_array(self, depth: int) -> SchemaAndValue:
        items: list[Any] = []
        element = _CommonSchema()
        while not self._accept_token("]"):
            found = self.parse_value_at_depth(depth + 1)
            element.add_value(found)
            items.append(None if found is None else found.value)
            if self._peek_token() != "]" and not self._accept_token(","):
                raise _NoValueError
        described = Schema(type=SchemaType.ARRAY, elements=element.schema)
        return SchemaAndValue(described, [element.convert_to_common_schema(each) for each in items])

    def _parse_map(self, depth: int) -> SchemaAndValue:
        entries: list[tuple[Any, Any]] = []
        keys, values = _CommonSchema(), _CommonSchema()
        while not self._accept_token("}"):
            key = self.parse_value_at_depth(depth + 1)
            if key is None or not self._accept_token(":"):
                raise _NoValueError
            value = self.parse_value_at_depth(depth + 1)
            self._accept_token(",")
            keys.add_value(key)
            values.add_value(value)
            entries.append((_convert_to_map_key(key.value), None if value is None else value.value))
        described = Schema(
            type=SchemaType.MAP,
            keys=keys.schema,
            elements=values.schema if keys.schema is not None else None,
        )
        aligned = {
            keys.convert_to_common_schema(key): values.convert_to_common_schema(value)
            for key, value in entries
        }
        return SchemaAndValue(described, aligned)


class _CommonSchema:
    """Determines the common schema of a list's items; for numbers, this is the widest number type.
    The schema is None if the items have no common schema."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._compatible = True

    def add_value(self, found: ParsedValue) -> None:
        if found is None or found.schema is None or not self._compatible:
            return
        if self.schema is None or self.schema.type is found.schema.type:
            self.schema = found.schema
            return
        both = (self.schema, found.schema)
        self._compatible = all(each.type in _NUMBER_TYPES_BY_WIDTH for each in both)
        widest = max(both, key=_rank_number_type)
        self.schema = widest if self._compatible else None

    def convert_to_common_schema(self, value: Any) -> Any:
        """Convert an item to the common schema; for example, an integer among floats becomes a
        float.

        A null among other values does not match, so the whole text remains a string, as in Java.
        """
        if self.schema is None:
            return value
        if self.schema.type in _FLOAT_TYPES and isinstance(value, int):
            narrow = self.schema.type is SchemaType.FLOAT32
            return java_value_formatting.narrow_to_float32(float(value)) if narrow else float(value)
        if value is None or not structs.is_value_class_valid(self.schema, value):
            raise _NoValueError
        return value


def _rank_number_type(described: Schema) -> int:
    return (
        _NUMBER_TYPES_BY_WIDTH.index(described.type)
        if described.type in _NUMBER_TYPES_BY_WIDTH
        else -1
    )


def _convert_to_map_key(value: Any) -> Any:
    if isinstance(value, dict):
        raise _NoValueError
    return tuple(_convert_to_map_key(each) for each in value) if isinstance(value, list) else value


def parse_number(text: str) -> ParsedValue:
    """Parse a number as the smallest integer type, FLOAT32, FLOAT64 or Decimal. Return None if the
    text is not a number."""
    if not _NUMBER.fullmatch(text):
        return None
    try:
        exact = decimal.Decimal(text)
    except decimal.InvalidOperation:
        return None
    whole = _parse_integer(exact)
    if whole is not None:
        return whole
    _, _, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    if exponent != 0:
        narrow = java_value_formatting.narrow_to_float32(float(exact))
        if math.isfinite(narrow):
            return SchemaAndValue(schema.FLOAT32_SCHEMA, narrow)
        if math.isfinite(float(exact)):
            return SchemaAndValue(schema.FLOAT64_SCHEMA, float(exact))
    return SchemaAndValue(logical_types.decimal_schema(-exponent), exact)


def _parse_integer(exact: decimal.Decimal) -> ParsedValue:
    """Parse an integer as the smallest type that can represent it. The magnitude is checked first,
    so that `1e999999999` is not expanded."""
    if exact.adjusted() >= _MAX_INTEGER_DIGITS or exact != exact.to_integral_value():
        return None
    value = int(exact)
    for bits, described in _INTEGER_SCHEMAS:
        if -(1 << bits - 1) <= value < 1 << bits - 1:
            return SchemaAndValue(described, value)
    return None


def parse_temporal_value(text: str) -> ParsedValue:
    """Parse a date, time or timestamp in UTC. Return None if the text is invalid."""
    text = text.replace("\\:", ":")
    try:
        if _TIMESTAMP.fullmatch(text):
            instant = datetime.datetime.fromisoformat(text)
            return SchemaAndValue(logical_types.TIMESTAMP_SCHEMA, instant)
        if _DATE.fullmatch(text):
            date = datetime.date.fromisoformat(text)
            return SchemaAndValue(logical_types.DATE_SCHEMA, date)
        if _TIME.fullmatch(text):
            time = datetime.time.fromisoformat(text[:-1])
            return SchemaAndValue(logical_types.TIME_SCHEMA, time)
    except ValueError:
        return None
    return None


class SimpleHeaderConverter(HeaderConverter):
    """Converts headers to and from text; the default `header.converter` of workers. Bytes that are
    not valid UTF-8 are read as BYTES."""

    def version(self) -> str:
        return compatible_kafka_version.KAFKA_VERSION

    def config(self) -> ConfigDef:
        return ConfigDef()

    def from_connect_header(self, topic: str, key: str, data: SchemaAndValue) -> bytes | None:
        text = format_value(data.schema, data.value)
        return None if text is None else text.encode(errors="replace")

    def to_connect_header(self, topic: str, key: str, payload: bytes | None) -> SchemaAndValue:
        if payload is None:
            return schema.NULL_SCHEMA_AND_VALUE
        try:
            return parse_value(payload.decode())
        except UnicodeDecodeError:
            return SchemaAndValue(schema.BYTES_SCHEMA, payload)
