"""Single message transforms (SMT) and the predicates that select their records."""

from __future__ import annotations

import abc
from typing import ClassVar

from connect_runtime.api.plugin import Plugin
from connect_runtime.api.records import AnyRecord, ConnectRecord


class Transformation(Plugin, abc.ABC):
    """A transform, configured by `transforms.<alias>.type`. Each instance belongs to one task."""

    deterministic: ClassVar[bool] = False
    """True if equal input records always produce equal output records.

    Declare it if that holds: replication can then recognize after a crash what is already written.
    """

    @abc.abstractmethod
    def apply(self, record: AnyRecord) -> AnyRecord | None:
        """Return the record, a new one (`record.new_record`), or None to drop the record.

        Never modify headers, structs, lists or mappings of the record. Raise DataError if a record
        cannot be transformed.
        """


class Predicate(Plugin, abc.ABC):
    """Selects the records that a transform applies to, configured by `predicates.<alias>.type`."""

    deterministic: ClassVar[bool] = False
    """True if equal records always get the same result; see `Transformation.deterministic`."""

    @abc.abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Return whether the record matches."""
