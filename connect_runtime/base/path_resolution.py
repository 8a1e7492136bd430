"""Resolves file paths that configurations contain, in bounded time."""

from __future__ import annotations

import os

MAX_PATH_LENGTH = 4_096
"""Maximum length of a path. Linux rejects longer paths (PATH_MAX), and resolving one would take
quadratic time."""


def resolve_path(path: str) -> str:
    """Resolve `..` and symbolic links. The file need not exist.

    Raises `ValueError` if the path is longer than `MAX_PATH_LENGTH`, or contains a NUL character or
    a lone surrogate.
    """
    if len(path) > MAX_PATH_LENGTH:
        raise ValueError(f"a path has at most {MAX_PATH_LENGTH:,} characters, not {len(path):,}")
    resolved = os.path.realpath(path)
    os.fsencode(resolved)
    return resolved
