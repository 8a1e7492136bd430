"""Limits the length of file paths from configurations before they are resolved."""

from __future__ import annotations

MAX_PATH_LENGTH = 4_096
"""Maximum length of a path. Linux rejects longer paths (PATH_MAX), and resolving one would take
quadratic time."""
