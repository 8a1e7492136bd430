"""Closing several things, of which none may keep the others from being closed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from connect_runtime.base import errors

_LOG = logging.getLogger(__name__)


class Steps:
    """Each is taken, whatever another raised; the first failure is raised in the end."""

    def __init__(self, of: str) -> None:
        self._of = of
        self._failure: BaseException | None = None

    def take(self, doing: str, step: Callable[[], object], *, fails: bool = True) -> None:
        """`fails` False: a failure is logged, and that is all."""
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - of plugins, which may raise anything
            if isinstance(error, errors.RetriableError):  # it says enough: a cluster is away
                _LOG.error("%s of %s failed: %s", doing, self._of, error)
            else:
                _LOG.error("%s of %s failed", doing, self._of, exc_info=error)
            if fails:
                self._failure = self._failure or error

    def raise_first(self) -> None:
        if self._failure is not None:
            raise self._failure
