"""How thorough property tests are: `make check` looks at a few examples, `make test` at all."""

from __future__ import annotations

import os

_SHARE = 10
_FEWEST = 5


def of(wanted: int) -> int:
    """For `max_examples`: as many as wanted, or a tenth where MM2_EXAMPLES is `few`."""
    if os.environ.get("MM2_EXAMPLES") == "few":
        return max(_FEWEST, wanted // _SHARE)
    return wanted
