"""What is said of a failure: in a status what went wrong in its first line, as Java, then where; in
the log no more than the words of an error that explains itself."""

from __future__ import annotations

import logging
import traceback

from connect_runtime.base import errors


def of(error: BaseException) -> str:
    """The error alone, since many a display has room for a line; below it the whole trace."""
    said = "".join(traceback.format_exception_only(error)).strip()
    return f"{said}\n{''.join(traceback.format_exception(error))}"


def log(to: logging.Logger, who: str, error: BaseException) -> None:
    """`who` failed. Where in the code is for what nobody foresaw, and for who looks closely."""
    if isinstance(error, errors.ConnectError):
        to.error("%s failed: %s", who, error)
        to.debug("%s failed in", who, exc_info=error)
    else:
        to.error("%s threw", who, exc_info=error)
