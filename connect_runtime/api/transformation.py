"""Single message transforms (SMT) and the predicates that select their records."""

from __future__ import annotations

import abc
from typing import ClassVar

from connect_runtime.api.plugin import Plugin
from connect_runtime.api.records import AnyRecord, ConnectRecord


class Transformation(Plugin, abc.ABC):
    """A single message transform, configured by `transforms.<alias>.type`. Each instance is used by
    one task."""

    deterministic: ClassVar[bool] = False
    """True if equal input records always produce equal output records. False, the default, is
    always safe.

    After a crash, mm2 transforms source records again and compares them with the records on the
    target, to find the records that were already written. This requires a deterministic transform.
    """

    @abc.abstractmethod
    def apply(self, record: AnyRecord) -> AnyRecord | None:
        """Return the record, a changed copy (`record.new_record`), or None to drop the record.

        Never modify the record's headers, structs, lists or mappings in place. Raise DataError if
        the record cannot be transformed.
        """


class Predicate(Plugin, abc.ABC):
    """Predicate that selects the records to which a transform is applied. It is configured by
    `predicates.<alias>.type`."""

    deterministic: ClassVar[bool] = False
    """True if the result is always the same for equal records. See
    `Transformation.deterministic`."""

    @abc.abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Return True if the record matches the predicate."""
