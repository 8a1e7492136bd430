"""Headers of a record: an ordered list in which a name may come again (Java's ConnectHeaders)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from connect_runtime.api import errors, schema, structs


@dataclass(frozen=True, slots=True)
class Header:
    """A struct brings its schema with it; other values may go without."""

    key: str
    value: Any
    schema: schema.Schema | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.key, str):
            raise errors.DataError("Null header keys are not permitted")
        if self.schema is None and isinstance(self.value, structs.Struct):
            object.__setattr__(self, "schema", self.value.schema)

    def renamed(self, key: str) -> Header:
        return Header(key, self.value, self.schema)


Change = Callable[[Header], Header | None]
"""What becomes of a header; None removes it."""


class Headers:
    """Mutable, as transforms need it; methods that change it return it."""

    __slots__ = ("_headers",)

    def __init__(self, headers: Iterable[Header] = ()) -> None:
        self._headers = list(headers)

    def add(self, key: str, value: Any, described: schema.Schema | None = None) -> Headers:
        """Append one; DataError if the value is not of the schema's class."""
        if described is not None:
            _check_matches(described, value)
        return self.append(Header(key, value, described))

    def add_string(self, key: str, value: str | None) -> Headers:
        has = schema.OPTIONAL_STRING_SCHEMA if value is None else schema.STRING_SCHEMA
        return self.add(key, value, has)

    def add_bytes(self, key: str, value: bytes | None) -> Headers:
        has = schema.OPTIONAL_BYTES_SCHEMA if value is None else schema.BYTES_SCHEMA
        return self.add(key, value, has)

    def append(self, header: Header) -> Headers:
        self._headers.append(header)
        return self

    def last_with_name(self, key: str) -> Header | None:
        return next((each for each in reversed(self._headers) if each.key == key), None)

    def all_with_name(self, key: str) -> list[Header]:
        return [each for each in self._headers if each.key == key]

    def remove(self, key: str) -> Headers:
        """All of that name."""
        self._headers = [each for each in self._headers if each.key != key]
        return self

    def retain_latest(self, key: str | None = None) -> Headers:
        """Of each name, or of that one only, keep the last."""
        kept: list[Header] = []
        seen: set[str] = set()
        for each in reversed(self._headers):
            if each.key in seen and key in (None, each.key):
                continue
            seen.add(each.key)
            kept.append(each)
        self._headers = kept[::-1]
        return self

    def apply(self, change: Change, key: str | None = None) -> Headers:
        """Change every header, or those of that name, in its place."""
        changed = (change(each) if key in (None, each.key) else each for each in self._headers)
        self._headers = [each for each in changed if each is not None]
        return self

    def clear(self) -> Headers:
        self._headers.clear()
        return self

    def duplicate(self) -> Headers:
        return Headers(self._headers)

    def __iter__(self) -> Iterator[Header]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)

    def __eq__(self, other: object) -> bool:
        return self._headers == other._headers if isinstance(other, Headers) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"Headers({self._headers})"


def _check_matches(described: schema.Schema, value: Any) -> None:
    """Java looks at the outermost class only, and so do we."""
    if value is None:
        if not described.optional:
            raise errors.DataError(
                f"A null value requires an optional schema but was {described!r}"
            )
    elif not structs.of_right_class(described, value):
        raise errors.DataError(
            f"A header value of class {type(value).__name__} is not compatible with "
            f"the schema {described!r}"
        )
