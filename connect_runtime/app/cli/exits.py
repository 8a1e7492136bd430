"""Exit codes of `connect-distributed` and `connect-standalone`: those of Java's commands.

Ended by a signal it is 128 and the signal's number, as shells count and the JVM does.
"""

from __future__ import annotations

DONE = 0
USAGE = 1
"""Called wrongly, or asked for help."""
ENDED = 1
"""The worker ended by itself, which it should not."""
BAD_SETTINGS = 2
NOT_STARTED = 3
"""The worker, or a connector of the command line, did not start."""
SIGNALLED = 128
