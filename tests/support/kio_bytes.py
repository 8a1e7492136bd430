"""What kio writes of an entity: our own readers and writers are held against it."""

from __future__ import annotations

import io
from typing import Any

from kio.serial import entity_writer


def written(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()
