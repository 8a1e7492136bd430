"""Topics that are state, folded up record by record; what is no record of theirs is passed over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias

from mm2.cluster import state_topics
from mm2.formats import schema_fields

_LOG = logging.getLogger(__name__)

Apply: TypeAlias = Callable[[bytes, bytes | None], object]
"""Folds one in. Raises `schema_fields.MalformedRecordError`, and holds what it held then."""


def fold(found: Iterable[state_topics.TopicRecord], apply: Apply) -> None:
    """All of them, in order. What has no key, or cannot be read, is told in the log."""
    for each in found:
        where = f"{each.topic}: the record at offset {each.offset}"
        if each.key is None:
            _LOG.warning("%s has no key; it is passed over", where)
            continue
        try:
            apply(each.key, each.value)
        except schema_fields.MalformedRecordError as error:
            _LOG.warning("%s cannot be read (%s); it is passed over", where, error)
