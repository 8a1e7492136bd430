"""Where what can be made again is kept for the user: jars, archives of classes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from connect_runtime.system import private_folder


def folder(environ: Mapping[str, str] = os.environ) -> Path:
    """`$MM2_CACHE`, else `$XDG_CACHE_HOME/mm2`, else `~/.cache/mm2`; it need not be there.

    Raises `OSError` as `_home`.
    """
    if environ.get("MM2_CACHE"):
        return Path(environ["MM2_CACHE"]).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser().absolute() if base else _home() / ".cache") / "mm2"


def _home() -> Path:
    """A user id that the system has no name for, as containers may be given, has no home. Raises
    `ForeignFolderError` where another user made the one that it is given."""
    try:
        return Path.home()
    except RuntimeError:
        return private_folder.ensure_private(
            Path(tempfile.gettempdir()) / f"mm2-home-{os.geteuid()}"
        )
