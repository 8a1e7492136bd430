"""Single message transforms (SMT) and the predicates that select their records."""

from __future__ import annotations

import abc
from typing import ClassVar

from connect_runtime.api.plugin import Plugin
from connect_runtime.api.records import AnyRecord, ConnectRecord


class Transformation(Plugin, abc.ABC):
    """`transforms.<alias>.type`. One instance belongs to one task."""

    deterministic: ClassVar[bool] = False
    """Whether the same record always becomes the same record. Declare it if so: a mirror can then
    tell after a crash what it has written already."""

    @abc.abstractmethod
    def apply(self, record: AnyRecord) -> AnyRecord | None:
        """The record, a new one (`record.new_record`), or None to drop it.

        Never change what the record holds: headers, structs, lists, mappings. Raise DataError for
        a record that cannot be transformed.
        """


class Predicate(Plugin, abc.ABC):
    """`predicates.<alias>.type`: whether a transform applies to a record."""

    deterministic: ClassVar[bool] = False
    """Whether it says the same of the same record, always. Declare it if so: see
    `Transformation.deterministic`."""

    @abc.abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Whether it applies."""
