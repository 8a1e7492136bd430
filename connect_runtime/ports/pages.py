"""Port: pages that whoever wires a process has its servers serve beside what they are there for.

They are read only: GET and HEAD. A page is made on a thread of its lane's small pool, so it may
take a moment; what takes long is prepared elsewhere.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

DEADLINE_S = 10.0
"""Who has not answered by then has not answered."""

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`path` is as it was sent, percent-encoded; `query` has a name's first value, decoded; of the
    headers there are `accept` and `requested_with` (X-Requested-With), "" where they were not sent.

    Who sends `requested_with` is a script of our own pages, or a program: pages from elsewhere
    cannot have a browser send it here, as no answer of ours allows that (CORS); and where a browser
    says that such a page asks, it is ""."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = ""
    requested_with: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`headers` are sent beside the content's type and length, such as `Location`."""

    body: bytes
    content_type: str = JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Make = Callable[[Asked], Page]
"""Any thread may ask, several at once. What it raises is logged, and answered with 500."""


class Lane(enum.Enum):
    """Who shares threads. A lane that is full, or whose pages take long, holds up no other one."""

    AT_ONCE = "at once"
    """It waits for nothing and takes no time: made where the request is read, on no other thread.
    Whoever ends processes that do not answer asks this."""
    PROBES = "probes"
    SCRAPES = "scrapes"
    PEOPLE = "people"


@dataclass(frozen=True, slots=True)
class In:
    """A page in another lane than `PEOPLE`, where all are that say nothing."""

    lane: Lane
    make: Make

    def __call__(self, asked: Asked) -> Page:
        return self.make(asked)


def lane(make: Make) -> Lane:
    return make.lane if isinstance(make, In) else Lane.PEOPLE


Pages = Mapping[str, Make]
"""By path, `/health/live`."""
