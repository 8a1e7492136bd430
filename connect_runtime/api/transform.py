"""Changing records on their way, one at a time (single message transforms), and choosing them."""

from __future__ import annotations

import abc
from typing import ClassVar

from connect_runtime.api import plugin, records


class Transformation(plugin.Plugin, abc.ABC):
    """`transforms.<alias>.type`. One instance belongs to one task."""

    deterministic: ClassVar[bool] = False
    """Whether the same record always becomes the same record. Declare it if so: a mirror can then
    tell after a crash what it has written already."""

    @abc.abstractmethod
    def apply(self, record: records.AnyRecord) -> records.AnyRecord | None:
        """The record, a new one (`record.new_record`), or None to drop it.

        Never change what the record holds: headers, structs, lists, mappings. Raise DataError for
        a record that cannot be transformed.
        """


class Predicate(plugin.Plugin, abc.ABC):
    """`predicates.<alias>.type`: whether a transform applies to a record."""

    deterministic: ClassVar[bool] = False
    """Whether it says the same of the same record, always. Declare it if so: see
    `Transformation.deterministic`."""

    @abc.abstractmethod
    def test(self, record: records.ConnectRecord) -> bool:
        """Whether it applies."""
