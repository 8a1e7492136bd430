"""Port: pages that whoever wires a process has its servers serve beside what they are there for.

They are read only: GET and HEAD. A page is made on a thread of a small pool, so it may take a
moment; what takes long is prepared elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

DEADLINE_S = 10.0
"""Who has not answered by then has not answered."""
THREADS = 4
WAITING_MAX = 32
"""So many pages are made at once, and wait to be; whoever comes then is told to come again."""

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`path` is as it was sent, percent-encoded; `query` has a name's first value, decoded; of the
    headers there is `accept`, "" where it was not sent."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`headers` are sent beside the content's type and length, such as `Location`."""

    body: bytes
    content_type: str = JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Make = Callable[[Asked], Page]
"""Any thread may ask, several at once. What it raises is logged, and answered with 500."""
Pages = Mapping[str, Make]
"""By path, `/health/live`; one that ends in a slash, `/ui/`, has all below it."""


def find(pages: Pages, path: str) -> Make | None:
    """Whose page it is; the longest that fits. None: nobody's."""
    exact = pages.get(path)
    if exact is not None:
        return exact
    below = [name for name in pages if name.endswith("/") and path.startswith(name) and name != "/"]
    return pages[max(below, key=len)] if below else None
