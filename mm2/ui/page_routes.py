"""The routes of the status page: the page, its static files, and JSON below `/ui/api/`.

All routes are read-only. The content security policy allows no external resource.
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
from connect_runtime.rest.http_pages import PageRenderer, PageRequest, PageResponse
from connect_runtime.rest.rest_settings import WorkerIdentity
from mm2.connectors.status_registry import StatusRegistry
from mm2.ui import status_page_command_runner, status_page_json
from mm2.ui.lag_timeline import TimelinePoint
from mm2.ui.status_page_command_runner import CommandResult, PageCommand
from mm2.ui.status_page_json import FlowPageSnapshot, PageSnapshot

PAGE_PATH = "/ui"
API_PATH = f"{PAGE_PATH}/api"
SEARCH_CHARS_MAX = 249
"""Maximum length of a search text, equal to the maximum length of topic names."""
SEARCHES_MAX = 16
"""Maximum number of different consumer group searches per snapshot. The limit applies to the
searches in all flows together."""
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
    """Source of page snapshots; implemented by `SnapshotWatch`."""

    def get_current_snapshot(self) -> PageSnapshot: ...

    def get_flow_timeline(self, flow: str) -> Sequence[TimelinePoint]: ...


class CommandResults(Protocol):
    """Runs commands and keeps their results; implemented by `CommandRunner`."""

    def request_result(self, question: PageCommand) -> CommandResult: ...

    def get_last_result(self, question: PageCommand) -> CommandResult: ...


class TooManySearchesError(RetriableError):
    """Too many different searches were requested for one snapshot."""


class _DocumentCache:
    """Caches the documents of one snapshot. Each document is built once, and only one is built at a
    time. Thread-safe."""

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
        """Return the document `name` of the snapshot `seen`. If the document is not cached, build
        it with `make`. `text` is the search text, "" for no search.

        Raises `TooManySearchesError` if `text` is a new search and `SEARCHES_MAX` searches are
        already cached.
        """
        with self._lock:
            if self._of is not seen:
                self._of, self._made, self._searches = seen, {}, 0
            key = (*name, text)
            if key not in self._made:
                if text and self._searches >= SEARCHES_MAX:
                    raise TooManySearchesError(
                        f"more than {SEARCHES_MAX} different group searches; try again in a second"
                    )
                self._made[key] = make()
                self._searches += bool(text)
            found: T = self._made[key]
            return found


class StatusSite:
    """Serves the status page and its JSON documents. Thread-safe."""

    def __init__(self, seen: SnapshotSource, on: StatusRegistry, asked: CommandResults) -> None:
        self._seen = seen
        self._board = on
        self._asked = asked
        self._made = _DocumentCache()

    def make_pages(self) -> dict[str, PageRenderer]:
        """Return the pages by path.

        No path conflicts with the Connect REST paths of a target cluster named `ui`, which have the
        form `/ui/<target>/connectors`.
        """
        of_flows: Mapping[str, _MakeFlowPage] = {
            "flow": self._render_flow,
            "groups": self._render_groups,
            "incidents": self._render_incidents,
            "plan": self._render_plan,
        }
        return {
            "/": render_root_page,
            PAGE_PATH: _make_static_page(_STATIC_FILES / "index.html", _HTML),
            f"{PAGE_PATH}/": _redirect_to_path_without_slash,
            **_make_static_pages(),
            f"{API_PATH}/overview": self._render_overview,
            **{f"{API_PATH}/{name}": self._make_flow_page(make) for name, make in of_flows.items()},
        }

    def _render_overview(self, _: PageRequest) -> PageResponse:
        seen = self._seen.get_current_snapshot()
        return self._made.get(
            seen,
            ("overview",),
            lambda: _make_json_page(status_page_json.make_overview_document(seen)),
        )

    def _render_flow(
        self, asked: PageRequest, seen: PageSnapshot, one: _FlowOnPage
    ) -> PageResponse:
        """Render a flow's document. A search by topic name filters the cached details of the
        flow."""
        name, topic = one.flow.name, asked.query.get("topic", "")[:SEARCH_CHARS_MAX]
        found = self._made.get(
            seen,
            ("detail", name),
            lambda: status_page_json.make_flow_detail(
                seen, one, self._seen.get_flow_timeline(name)
            ),
        )
        if topic:
            return _make_json_page(status_page_json.make_flow_document(found, topic=topic))
        return self._made.get(
            seen,
            ("flow", name),
            lambda: _make_json_page(status_page_json.make_flow_document(found)),
        )

    def _render_groups(
        self, asked: PageRequest, seen: PageSnapshot, one: _FlowOnPage
    ) -> PageResponse:
        """Render the consumer groups document, from the groups that the checkpoint tasks report."""
        name, text = one.flow.name, asked.query.get("group", "")[:SEARCH_CHARS_MAX]

        def make_groups_page() -> PageResponse:
            told = self._board.get_snapshot().groups.get(name, {})
            return _make_json_page(
                status_page_json.make_groups_document(seen, one, [*told.values()], text=text)
            )

        try:
            return self._made.get(seen, ("groups", name), make_groups_page, text=text)
        except TooManySearchesError as error:
            busy = {**status_page_json.make_document_head(seen), "error": str(error)}
            return _make_json_page(busy, status=HTTPStatus.SERVICE_UNAVAILABLE)

    def _render_incidents(
        self, asked: PageRequest, seen: PageSnapshot, one: _FlowOnPage
    ) -> PageResponse:
        return self._get_command_result(
            asked, seen, status_page_command_runner.make_incidents_command(one.flow, seen.node.file)
        )

    def _render_plan(
        self, asked: PageRequest, seen: PageSnapshot, one: _FlowOnPage
    ) -> PageResponse:
        return self._get_command_result(
            asked, seen, status_page_command_runner.make_plan_command(one.flow, seen.node.file)
        )

    def _get_command_result(
        self, asked: PageRequest, seen: PageSnapshot, question: PageCommand
    ) -> PageResponse:
        """Return the last result of a command. If the query string contains `look=1`, also run the
        command again.

        The command queries the clusters. `look=1` therefore requires a header that browsers do not
        send with cross-site requests.
        """
        wanted = asked.query.get("look") == "1"
        if wanted and not asked.requested_with:
            told = "look=1 requires the request header X-Requested-With, with any value"
            return _make_json_page(
                {**status_page_json.make_document_head(seen), "error": told},
                status=HTTPStatus.FORBIDDEN,
            )
        answer = (
            self._asked.request_result(question)
            if wanted
            else self._asked.get_last_result(question)
        )
        return _make_json_page(
            {
                **status_page_json.make_document_head(seen),
                **status_page_command_runner.result_to_json(answer),
            }
        )

    def _make_flow_page(self, make: _MakeFlowPage) -> PageRenderer:
        """Return a page renderer that finds the flow named in the query string, and calls `make`
        with the flow's snapshot. If the flow does not exist, the response is an error."""

        def render_flow_page(asked: PageRequest) -> PageResponse:
            seen = self._seen.get_current_snapshot()
            one = seen.find_flow(asked.query.get("flow", ""))
            return _make_flow_not_found_response(seen) if one is None else make(asked, seen, one)

        return render_flow_page


def render_root_page(asked: PageRequest) -> PageResponse:
    """Serve the path `/`: redirect browsers to the status page, and return Connect's JSON to other
    clients.

    The JSON contains no Kafka cluster id, because a process may have flows with different clusters.
    The path of each flow returns a cluster id.
    """
    if "text/html" in asked.accept:
        return PageResponse(
            status=HTTPStatus.SEE_OTHER, body=b"", headers={**_HEADERS, "Location": PAGE_PATH}
        )
    told = WorkerIdentity()
    return _make_json_page(
        {"version": told.version, "commit": told.commit, "kafka_cluster_id": None}
    )


def _redirect_to_path_without_slash(_: PageRequest) -> PageResponse:
    """Redirect to the path without the trailing slash, because the page's links are relative to
    that path."""
    headers = {**_HEADERS, "Location": PAGE_PATH}
    return PageResponse(status=HTTPStatus.SEE_OTHER, body=b"", headers=headers)


def _make_static_pages() -> dict[str, PageRenderer]:
    """Build the pages that serve the style sheet and the scripts."""
    kinds = {".css": _CSS, ".js": _JS}
    return {
        f"{PAGE_PATH}/{each.name}": _make_static_page(each, kinds[suffix])
        for each in _STATIC_FILES.iterdir()
        if (suffix := pathlib.PurePath(each.name).suffix) in kinds
    }


def _make_static_page(file: abc.Traversable, content_type: str) -> PageRenderer:
    page = PageResponse(body=file.read_bytes(), content_type=content_type, headers=_HEADERS)
    return lambda _: page


def _make_flow_not_found_response(seen: PageSnapshot) -> PageResponse:
    names = [each.flow.name for each in seen.flows]
    told = {
        **status_page_json.make_document_head(seen),
        "error": "no such flow",
        "flows": names,
    }
    return _make_json_page(told, status=HTTPStatus.NOT_FOUND)


def _make_json_page(found: Mapping[str, Any], *, status: int = HTTPStatus.OK) -> PageResponse:
    """Encode a document as a JSON page. Unencodable characters are replaced by question marks."""
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return PageResponse(body=text.encode("utf-8", "replace"), status=status, headers=_HEADERS)
