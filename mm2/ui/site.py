"""The routes of the status page: the page, its static files, and JSON below `/ui/api/`.

Everything is read only. The content security policy allows no external resource.
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

from connect_runtime.base.errors import RetriableError
from connect_runtime.rest.mounted_pages import PageRenderer, PageRequest, PageResponse
from connect_runtime.rest.rest_settings import WorkerIdentity
from mm2.connectors.status_registry import StatusRegistry
from mm2.ui import command_runner, json_documents
from mm2.ui.command_runner import CommandResult, PageCommand
from mm2.ui.json_documents import FlowPageSnapshot, PageSnapshot
from mm2.ui.timeline import TimelinePoint

PAGE_PATH = "/ui"
API_PATH = f"{PAGE_PATH}/api"
SEARCH_CHARS_MAX = 249
"""Maximum length of a search text: that of topic names."""
SEARCHES_MAX = 16
"""Maximum number of different searches for groups per snapshot, over all flows."""
_STATIC_FILES = importlib.resources.files("mm2.ui") / "static"
_HTML = "text/html; charset=utf-8"
_CSS = "text/css; charset=utf-8"
_JS = "text/javascript; charset=utf-8"
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

T = TypeVar("T")
JsonObject = dict[str, Any]
_FlowOnPage = FlowPageSnapshot
_MakeFlowPage = Callable[[PageRequest, PageSnapshot, _FlowOnPage], PageResponse]


class SnapshotSource(Protocol):
    """Source of snapshots: `SnapshotWatch`."""

    def current_snapshot(self) -> PageSnapshot: ...

    def flow_timeline(self, flow: str) -> Sequence[TimelinePoint]: ...


class CommandResults(Protocol):
    """Runs commands and keeps their results: `CommandRunner`."""

    def request(self, question: PageCommand) -> CommandResult: ...

    def last_result(self, question: PageCommand) -> CommandResult: ...


class TooManySearchesError(RetriableError):
    """More different searches at once than people make."""


class _DocumentCache:
    """Caches the documents of one snapshot; builds each once, one at a time. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: PageSnapshot | None = None
        self._made: dict[tuple[str, ...], Any] = {}
        self._searches = 0
        """Number of searches in `_made`."""

    def get(
        self,
        seen: PageSnapshot,
        name: tuple[str, ...],
        make: Callable[[], T],
        *,
        text: str = "",
    ) -> T:
        """Returns a document, built by `make` if needed; `text` is what it searches for.

        Raises `TooManySearchesError` for a search only."""
        with self._lock:
            if self._of is not seen:
                self._of, self._made, self._searches = seen, {}, 0
            key = (*name, text)
            if key not in self._made:
                if text and self._searches >= SEARCHES_MAX:
                    raise TooManySearchesError(
                        f"more than {SEARCHES_MAX} different searches; try again"
                    )
                self._made[key] = make()
                self._searches += bool(text)
            found: T = self._made[key]
            return found


class StatusSite:
    """The pages, returned by `make_pages`. Thread-safe."""

    def __init__(self, seen: SnapshotSource, on: StatusRegistry, asked: CommandResults) -> None:
        self._seen = seen
        self._board = on
        self._asked = asked
        self._made = _DocumentCache()

    def make_pages(self) -> dict[str, PageRenderer]:
        """Returns the pages by path. None conflicts with a target named `ui`, whose paths are
        `/ui/<target>/connectors`."""
        of_flows: Mapping[str, _MakeFlowPage] = {
            "flow": self._flow,
            "groups": self._groups,
            "incidents": self._incidents,
            "plan": self._plan,
        }
        return {
            "/": redirect_to_page,
            PAGE_PATH: _make_static_page(_STATIC_FILES / "index.html", _HTML),
            f"{PAGE_PATH}/": _redirect_to_slash,
            **_make_static_pages(),
            f"{API_PATH}/overview": self._overview,
            **{f"{API_PATH}/{name}": self._make_flow_page(make) for name, make in of_flows.items()},
        }

    def _overview(self, _: PageRequest) -> PageResponse:
        seen = self._seen.current_snapshot()
        return self._made.get(
            seen,
            ("overview",),
            lambda: _make_json_page(json_documents.make_overview_document(seen)),
        )

    def _flow(self, asked: PageRequest, seen: PageSnapshot, one: _FlowOnPage) -> PageResponse:
        """A search filters the cached detail."""
        name, topic = one.flow.name, asked.query.get("topic", "")[:SEARCH_CHARS_MAX]
        found = self._made.get(
            seen,
            ("detail", name),
            lambda: json_documents.make_flow_detail(seen, one, self._seen.flow_timeline(name)),
        )
        if topic:
            return _make_json_page(json_documents.make_flow_document(found, topic=topic))
        return self._made.get(
            seen, ("flow", name), lambda: _make_json_page(json_documents.make_flow_document(found))
        )

    def _groups(self, asked: PageRequest, seen: PageSnapshot, one: _FlowOnPage) -> PageResponse:
        """Groups are searched in the state of the tasks that write their checkpoints."""
        name, text = one.flow.name, asked.query.get("group", "")[:SEARCH_CHARS_MAX]

        def make() -> PageResponse:
            told = self._board.snapshot().groups.get(name, {})
            return _make_json_page(
                json_documents.make_groups_document(seen, one, [*told.values()], text=text)
            )

        try:
            return self._made.get(seen, ("groups", name), make, text=text)
        except TooManySearchesError as error:
            busy = {**json_documents.make_document_head(seen), "error": str(error)}
            return _make_json_page(busy, status=HTTPStatus.SERVICE_UNAVAILABLE)

    def _incidents(self, asked: PageRequest, seen: PageSnapshot, one: _FlowOnPage) -> PageResponse:
        return self._get_result(
            asked, seen, command_runner.make_incidents_command(one.flow, seen.node.file)
        )

    def _plan(self, asked: PageRequest, seen: PageSnapshot, one: _FlowOnPage) -> PageResponse:
        return self._get_result(
            asked, seen, command_runner.make_plan_command(one.flow, seen.node.file)
        )

    def _get_result(
        self, asked: PageRequest, seen: PageSnapshot, question: PageCommand
    ) -> PageResponse:
        """Return a command's last result, and run it again if requested.

        Running it queries the clusters. The required header prevents requests from other sites, by
        way of the browser of somebody with access."""
        wanted = asked.query.get("look") == "1"
        if wanted and not asked.requested_with:
            told = "look=1 needs the header X-Requested-With, with any value"
            return _make_json_page(
                {**json_documents.make_document_head(seen), "error": told},
                status=HTTPStatus.FORBIDDEN,
            )
        answer = self._asked.request(question) if wanted else self._asked.last_result(question)
        return _make_json_page(
            {**json_documents.make_document_head(seen), **command_runner.result_to_json(answer)}
        )

    def _make_flow_page(self, make: _MakeFlowPage) -> PageRenderer:
        """Wrap a page of the flow that the query names."""

        def made(asked: PageRequest) -> PageResponse:
            seen = self._seen.current_snapshot()
            one = seen.find_flow(asked.query.get("flow", ""))
            return _make_flow_not_found(seen) if one is None else make(asked, seen, one)

        return made


def redirect_to_page(asked: PageRequest) -> PageResponse:
    """Page `/`: redirects browsers to the status page; others get Connect's JSON, whose cluster id
    is below each flow's path."""
    if "text/html" in asked.accept:
        return PageResponse(
            status=HTTPStatus.SEE_OTHER, body=b"", headers={**_HEADERS, "Location": PAGE_PATH}
        )
    told = WorkerIdentity()
    return _make_json_page(
        {"version": told.version, "commit": told.commit, "kafka_cluster_id": None}
    )


def _redirect_to_slash(_: PageRequest) -> PageResponse:
    """Redirect to the path without a slash, because the page's links are relative to it."""
    headers = {**_HEADERS, "Location": PAGE_PATH}
    return PageResponse(status=HTTPStatus.SEE_OTHER, body=b"", headers=headers)


def _make_static_pages() -> dict[str, PageRenderer]:
    """Build the pages of style sheet and scripts."""
    kinds = {".css": _CSS, ".js": _JS}
    return {
        f"{PAGE_PATH}/{each.name}": _make_static_page(each, kinds[suffix])
        for each in _STATIC_FILES.iterdir()
        if (suffix := pathlib.PurePath(each.name).suffix) in kinds
    }


def _make_static_page(file: abc.Traversable, content_type: str) -> PageRenderer:
    page = PageResponse(body=file.read_bytes(), content_type=content_type, headers=_HEADERS)
    return lambda _: page


def _make_flow_not_found(seen: PageSnapshot) -> PageResponse:
    names = [each.flow.name for each in seen.flows]
    told = {
        **json_documents.make_document_head(seen),
        "error": "no such flow",
        "flows": names,
    }
    return _make_json_page(told, status=HTTPStatus.NOT_FOUND)


def _make_json_page(found: Mapping[str, Any], *, status: int = HTTPStatus.OK) -> PageResponse:
    """Encode a document; unencodable characters are replaced by a question mark."""
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return PageResponse(body=text.encode("utf-8", "replace"), status=status, headers=_HEADERS)
