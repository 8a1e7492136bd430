from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import root_logging


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    with root_logging.kept():
        yield
