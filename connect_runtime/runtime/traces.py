"""What a status says of a failure: what went wrong in its first line, as Java, then where."""

from __future__ import annotations

import traceback


def of(error: BaseException) -> str:
    """The error alone, since many a display has room for a line; below it the whole trace."""
    said = "".join(traceback.format_exception_only(error)).strip()
    return f"{said}\n{''.join(traceback.format_exception(error))}"
