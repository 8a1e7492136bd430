"""Exit codes of every command; `mm2 docs exit-codes` and the guides print this table.

A command that finds several things exits with the worst: unreachable, then unknown, then a problem.
"""

from __future__ import annotations

DONE = 0
"""Done, or healthy."""
FAILED = 1
"""A problem was found, or what was asked for was not done."""
BAD_INPUT = 2
"""Wrong usage, or the configuration is invalid; nothing was done."""
UNKNOWN = 3
"""Some answered, but not enough is known to say whether all is well."""
UNREACHABLE = 4
"""Nothing could be determined: neither a process nor a cluster answered."""
INTERRUPTED = 130
"""Ended by SIGINT (Ctrl-C), as shells count: 128 + 2."""
