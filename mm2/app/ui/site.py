"""The pages of the status page, by path: a document, what it loads, and JSON below `/ui/api/`.

All of it is read only, comes from here alone, and may load nothing from elsewhere.
"""

from __future__ import annotations

import importlib.resources
import json
import pathlib
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from importlib.resources import abc
from typing import Any, Protocol, TypeVar

from connect_runtime.base import errors
from connect_runtime.ports import pages
from connect_runtime.rest import settings as rest_settings
from mm2.app.ui import flow_documents, group_documents, questions, timeline
from mm2.connectors import board

PAGE = "/ui"
API = f"{PAGE}/api"
TEXT_MAX = 249
"""No longer text is looked for in names: so long a topic's may be."""
TEXTS_MAX = 16
"""So many different names of groups are looked for in one look at all flows."""
_FILES = importlib.resources.files("mm2.app.ui") / "static"
_HTML = "text/html; charset=utf-8"
_CSS = "text/css; charset=utf-8"
_JS = "text/javascript; charset=utf-8"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

T = TypeVar("T")
Json = dict[str, Any]
_One = flow_documents.FlowSeen
_Make = Callable[[pages.Asked, flow_documents.Seen, _One], pages.Page]


class Seen(Protocol):
    """What there is to see: `watch.Watch`."""

    def seen(self) -> flow_documents.Seen: ...

    def past(self, flow: str) -> Sequence[timeline.Point]: ...


class Asked(Protocol):
    """Who asks the clusters: `questions.Questions`."""

    def ask(self, question: questions.Question) -> questions.Answer: ...

    def known(self, question: questions.Question) -> questions.Answer: ...


class TooManyTextsError(errors.RetriableError):
    """More different names are looked for at once than people look for."""


class _Made:
    """What was made of one look, each once and one at a time, however many want it. Any thread may
    ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: flow_documents.Seen | None = None
        self._made: dict[tuple[str, ...], Any] = {}
        self._texts = 0

    def get(
        self,
        seen: flow_documents.Seen,
        name: tuple[str, ...],
        make: Callable[[], T],
        *,
        text: str = "",
    ) -> T:
        """`text`: what is looked for in it. Raises `TooManyTextsError`."""
        with self._lock:
            if self._of is not seen:
                self._of, self._made, self._texts = seen, {}, 0
            key = (*name, text)
            if key not in self._made:
                self._texts += bool(text)
                if self._texts > TEXTS_MAX:
                    raise TooManyTextsError(f"over {TEXTS_MAX} names are looked for; try again")
                self._made[key] = make()
            found: T = self._made[key]
            return found


class Site:
    """`served` are its pages. Any thread may ask."""

    def __init__(self, seen: Seen, on: board.Board, asked: Asked) -> None:
        self._seen = seen
        self._board = on
        self._asked = asked
        self._made = _Made()

    def served(self) -> dict[str, pages.Make]:
        """By path. None is of a cluster that is called `ui`: `/ui/<target>/connectors` is its."""
        of_flows: Mapping[str, _Make] = {
            "flow": self._flow,
            "groups": self._groups,
            "receipts": self._receipts,
            "plan": self._plan,
        }
        return {
            "/": root,
            PAGE: _static(_FILES / "index.html", _HTML),
            f"{PAGE}/": _moved,
            **_loaded(),
            f"{API}/overview": self._overview,
            **{f"{API}/{name}": self._of_flow(make) for name, make in of_flows.items()},
        }

    def _overview(self, _: pages.Asked) -> pages.Page:
        seen = self._seen.seen()
        return self._made.get(
            seen, ("overview",), lambda: _json(flow_documents.overview_json(seen))
        )

    def _flow(self, asked: pages.Asked, seen: flow_documents.Seen, one: _One) -> pages.Page:
        """A text picks from what is made already."""
        name, topic = one.flow.name, asked.query.get("topic", "")[:TEXT_MAX]
        found = self._made.get(
            seen,
            ("detail", name),
            lambda: flow_documents.detail(seen, one, self._seen.past(name)),
        )
        if topic:
            return _json(flow_documents.flow_json(found, topic=topic))
        return self._made.get(seen, ("flow", name), lambda: _json(flow_documents.flow_json(found)))

    def _groups(self, asked: pages.Asked, seen: flow_documents.Seen, one: _One) -> pages.Page:
        """Groups are looked for where the tasks that follow them keep theirs."""
        name, text = one.flow.name, asked.query.get("group", "")[:TEXT_MAX]

        def make() -> pages.Page:
            told = self._board.seen().groups.get(name, {})
            return _json(group_documents.groups_json(seen, one, [*told.values()], text=text))

        try:
            return self._made.get(seen, ("groups", name), make, text=text)
        except TooManyTextsError as error:
            busy = {**flow_documents.head(seen), "error": str(error)}
            return _json(busy, status=HTTPStatus.SERVICE_UNAVAILABLE)

    def _receipts(self, asked: pages.Asked, seen: flow_documents.Seen, one: _One) -> pages.Page:
        return self._answer(asked, seen, questions.receipts(one.flow, seen.node.file))

    def _plan(self, asked: pages.Asked, seen: flow_documents.Seen, one: _One) -> pages.Page:
        return self._answer(asked, seen, questions.plan(one.flow, seen.node.file))

    def _answer(
        self, asked: pages.Asked, seen: flow_documents.Seen, question: questions.Question
    ) -> pages.Page:
        """It costs the clusters something to be asked: that is done for who wants it, and surely
        not for pages from elsewhere, which a browser of somebody who may come here is shown."""
        wanted = asked.query.get("look") == "1"
        if wanted and not asked.requested_with:
            told = "with look=1 the header X-Requested-With is needed; any value will do"
            return _json({**flow_documents.head(seen), "error": told}, status=HTTPStatus.FORBIDDEN)
        answer = self._asked.ask(question) if wanted else self._asked.known(question)
        return _json({**flow_documents.head(seen), **questions.as_json(answer)})

    def _of_flow(self, make: _Make) -> pages.Make:
        """Of the flow that is named."""

        def made(asked: pages.Asked) -> pages.Page:
            seen = self._seen.seen()
            one = seen.find(asked.query.get("flow", ""))
            return _no_flow(seen) if one is None else make(asked, seen, one)

        return made


def root(asked: pages.Asked) -> pages.Page:
    """Of `/`: who wants to read HTML is led on, and programs get Connect's own JSON. Which cluster
    it is of is told below each flow's path."""
    if "text/html" in asked.accept:
        return pages.Page(
            status=HTTPStatus.SEE_OTHER, body=b"", headers={**_HEADERS, "Location": PAGE}
        )
    told = rest_settings.Identity()
    return _json({"version": told.version, "commit": told.commit, "kafka_cluster_id": None})


def _moved(_: pages.Asked) -> pages.Page:
    """Links of the page hold below `/ui` alone."""
    headers = {**_HEADERS, "Location": PAGE}
    return pages.Page(status=HTTPStatus.SEE_OTHER, body=b"", headers=headers)


def _loaded() -> dict[str, pages.Make]:
    """What the page loads: its style, and its script's modules."""
    kinds = {".css": _CSS, ".js": _JS}
    return {
        f"{PAGE}/{each.name}": _static(each, kinds[suffix])
        for each in _FILES.iterdir()
        if (suffix := pathlib.PurePath(each.name).suffix) in kinds
    }


def _static(file: abc.Traversable, content_type: str) -> pages.Make:
    page = pages.Page(body=file.read_bytes(), content_type=content_type, headers=_HEADERS)
    return lambda _: page


def _no_flow(seen: flow_documents.Seen) -> pages.Page:
    names = [each.flow.name for each in seen.flows]
    told = {**flow_documents.head(seen), "error": "there is no such flow", "flows": names}
    return _json(told, status=HTTPStatus.NOT_FOUND)


def _json(found: Mapping[str, Any], *, status: int = HTTPStatus.OK) -> pages.Page:
    """What no UTF-8 can hold is shown as a question mark."""
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return pages.Page(body=text.encode("utf-8", "replace"), status=status, headers=_HEADERS)
