"""Exit codes of every command."""

from __future__ import annotations

DONE = 0
FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
"""Ended by SIGINT (Ctrl-C), as shells count: 128 + 2."""
