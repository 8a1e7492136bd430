"""How thorough property tests are: few examples in `make check`, some in `make test`, else all."""

from __future__ import annotations

import os

_SHARES = {"few": 10, "some": 3}
_FEWEST = 5


def of(wanted: int) -> int:
    """For `max_examples`: as many as wanted, or the share of them that MM2_EXAMPLES asks for."""
    share = _SHARES.get(os.environ.get("MM2_EXAMPLES", ""), 1)
    return wanted if share == 1 else max(_FEWEST, wanted // share)
