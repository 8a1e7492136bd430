from __future__ import annotations

import json
import pathlib
import re

import pytest

from connect_runtime.rest import http_pages, rest_app
from connect_runtime.rest.http_page_middleware import PageMiddleware
from connect_runtime.rest.http_pages import PageRequest
from connect_runtime.rest.path_prefix_router import NamespaceRouter
from connect_runtime.rest.rest_settings import RestSettings
from mm2.connectors.status_registry import (
    CheckpointGroupsSnapshot,
    GroupSearchResult,
    StatusRegistry,
)
from mm2.ui import page_routes, status_page_json
from mm2.ui.page_routes import StatusSite
from mm2.ui.status_page_command_runner import CommandResult
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest, seen_flows

PLAIN = RestSettings()
STATIC = pathlib.Path(page_routes.__file__).parent / "static"
FILES = sorted(each.name for each in STATIC.iterdir())
MODULES = [each for each in FILES if each.endswith(".js")]
MODULE_LINES_MAX = 400


class Seen:
    def __init__(self):
        self.flows = [seen_flows.flow(seen_flows.part()), seen_flows.flow(flow="west->east")]
        self.look()

    def look(self):
        self.found = seen_flows.seen(*self.flows)

    def get_current_snapshot(self):
        return self.found

    def get_flow_timeline(self, flow):
        return ()


class Asked:
    def __init__(self):
        self.questions = []
        self.answer = CommandResult(output={"some": 1}, at_ms=5, took_s=1.26)

    def request_result(self, question):
        self.questions.append(("asked", question.arguments[0], question.arguments[-2]))
        return self.answer

    def get_last_result(self, question):
        self.questions.append(("known", question.arguments[0], question.arguments[-2]))
        return self.answer


class Browser:
    def __init__(self):
        self.asked = Asked()
        self.board = StatusRegistry()
        self.seen = Seen()
        self.served = StatusSite(self.seen, self.board, self.asked).make_pages()

    def get(self, path, *, accept="*/*", by="", **query):
        asked = PageRequest(path=path, query=query, accept=accept, requested_with=by)
        return self.served[path](asked)

    def json(self, path, *, status=200, by="", **query):
        page = self.get(path, by=by, **query)
        assert (page.status, page.content_type) == (status, http_pages.JSON_CONTENT_TYPE)
        return json.loads(page.body)


@pytest.fixture
def browser():
    return Browser()


def test_a_browser_is_led_on_and_a_program_gets_connects_own(browser):
    page = browser.get("/", accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert (page.status, page.headers["Location"]) == (303, "/ui")
    told = browser.json("/")
    assert list(told) == ["version", "commit", "kafka_cluster_id"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/ui", "text/html; charset=utf-8"),
        ("/ui/ui.css", "text/css; charset=utf-8"),
        *((f"/ui/{name}", "text/javascript; charset=utf-8") for name in MODULES),
    ],
)
def test_the_page_and_what_it_loads_are_told_for_what_they_are(browser, path, kind):
    page = browser.get(path)
    assert (page.status, page.content_type) == (200, kind)
    assert page.body


@pytest.mark.parametrize("path", ["/", "/ui", "/ui/", "/ui/ui.js", "/ui/api/overview"])
def test_nothing_is_kept_and_nothing_may_be_loaded_from_elsewhere(browser, path):
    headers = browser.get(path).headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    policy = dict(
        each.strip().split(" ", 1) for each in page_routes._CONTENT_SECURITY_POLICY.split(";")
    )
    assert headers["Content-Security-Policy"] == page_routes._CONTENT_SECURITY_POLICY
    assert (policy["default-src"], policy["script-src"]) == ("'none'", "'self'")
    assert "unsafe" not in page_routes._CONTENT_SECURITY_POLICY
    assert "http" not in page_routes._CONTENT_SECURITY_POLICY


@pytest.mark.parametrize("name", FILES)
def test_the_files_name_no_other_origin_and_hold_nothing_inline(name):
    text = (STATIC / name).read_text()
    addresses = set(re.findall(r"https?://[\w./-]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}, "a name of a vocabulary, no address"
    if name == "index.html":
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", text)
    if name in MODULES:
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_small_and_imports_its_neighbours_alone(name):
    text = (STATIC / name).read_text()
    assert len(text.splitlines()) < MODULE_LINES_MAX
    loaded = re.findall(r"""^import .*? from "(.*)";$""", text, re.MULTILINE)
    assert len(loaded) == len(re.findall(r"\bimport\b", text)), "at its head, and no other way"
    assert set(loaded) <= {f"./{each}" for each in MODULES}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_what_others_export_and_all_that_it_needs(name):
    text = (STATIC / name).read_text()
    for names, loaded in re.findall(r"""^import \{ (.*) \} from "\./(.*)";$""", text, re.M):
        other = (STATIC / loaded).read_text()
        exported = set(re.findall(r"^export (?:async )?(?:function|const) ([\w$]+)", other, re.M))
        taken = set(names.split(", "))
        assert taken <= exported, loaded
        rest = re.sub(r"^import .*$", "", text, flags=re.M)
        unused = [each for each in taken if not re.search(rf"(?<![\w$]){re.escape(each)}\b", rest)]
        assert [each for each in unused if each != "$"] == [], loaded


def test_the_folder_holds_what_is_served_alone():
    assert {each.suffix for each in STATIC.iterdir()} == {".html", ".css", ".js"}
    assert set(re.findall(r'(?:src|href)="ui/([\w.]+)"', (STATIC / "index.html").read_text())) == {
        "ui.css",
        "ui.js",
    }


def test_a_slash_at_the_end_leads_to_the_page(browser):
    page = browser.get("/ui/")
    assert (page.status, page.headers["Location"]) == (303, "/ui")


def test_a_cluster_that_is_called_ui_has_its_api(browser):
    """Beside the page's own paths all below `/ui/` are the API's, for reading, too."""
    behind = NamespaceRouter()
    behind.mount_application(
        ("ui", "west"), rest_app.build_applications(rest.parts(FakeHerder()), PLAIN).main
    )
    made = PageMiddleware(behind, browser.served)
    assert rest.ask(made, "GET", "/ui/west/connectors").json() == []
    assert rest.ask(made, "GET", "/ui").headers["content-type"].startswith("text/html")
    made.stop()


def test_documents_are_of_the_flow_that_is_named(browser):
    overview = browser.json("/ui/api/overview")
    assert [each["flow"] for each in overview["flows"]] == ["east->west", "west->east"]
    for name in ("flow", "groups", "incidents", "plan"):
        found = browser.json(f"/ui/api/{name}", flow="east->west")
        assert found["version"] == status_page_json.DOCUMENT_VERSION
        missing = browser.json(f"/ui/api/{name}", flow="east", status=404)
        assert missing["error"] == "no such flow"
        assert missing["flows"] == ["east->west", "west->east"]
    assert browser.json("/ui/api/flow", flow="east->west", topic="x")["topics"] == []


def test_groups_are_those_of_the_flows_tasks_in_this_process(browser):
    texts = []

    def find(text, _):
        texts.append(text)
        return GroupSearchResult(total_count=4, matching_count=2, groups={})

    browser.board.create_groups_publisher("east->west", 0).publish(
        CheckpointGroupsSnapshot(last_round_s=3, last_round_wall_ms=3, find_groups=find)
    )
    told = browser.json("/ui/api/groups", flow="east->west", group="bill")
    assert (told["group_count"], told["groups_found"], texts) == (4, 2, ["bill"])
    assert browser.json("/ui/api/groups", flow="west->east")["local_tasks"] == 0


@pytest.mark.parametrize(("name", "command"), [("plan", "failover"), ("incidents", "incidents")])
def test_clusters_are_asked_only_when_that_is_wanted(browser, name, command):
    told = browser.json(f"/ui/api/{name}", flow="east->west")
    assert (told["result"], told["result_ms"], told["took_s"]) == ({"some": 1}, 5, 1.3)
    browser.json(f"/ui/api/{name}", flow="east->west", look="1", by="mm2")
    assert [each[:2] for each in browser.asked.questions] == [
        ("known", command),
        ("asked", command),
    ]


@pytest.mark.parametrize("name", ["plan", "incidents"])
def test_a_page_from_elsewhere_cannot_have_clusters_asked(browser, name):
    """Nor can a link, a picture or a form: they send no header of that name."""
    told = browser.json(f"/ui/api/{name}", status=403, flow="east->west", look="1")
    assert "X-Requested-With" in told["error"]
    assert browser.asked.questions == []


def test_names_that_no_text_can_hold_are_shown_all_the_same(browser):
    browser.board.create_groups_publisher("east->west", 0).publish(
        CheckpointGroupsSnapshot(
            last_round_s=3,
            last_round_wall_ms=3,
            find_groups=lambda *_: GroupSearchResult(
                total_count=1, matching_count=1, groups={"half \ud800": []}
            ),
        )
    )
    told = browser.json("/ui/api/groups", flow="east->west")
    assert told["groups"][0]["group"] == "half ?"


def test_documents_of_one_look_are_made_once(browser):
    def flow():
        return browser.get("/ui/api/flow", flow="east->west")

    first, overview = flow(), browser.get("/ui/api/overview")
    assert flow() is first
    assert browser.get("/ui/api/overview") is overview
    browser.seen.look()
    assert flow() is not first


def test_topics_are_looked_for_in_what_was_made_already(browser, monkeypatch):
    """However many different texts are asked for."""
    made, details = [], status_page_json.make_flow_detail

    def detail(*given):
        made.append(1)
        return details(*given)

    monkeypatch.setattr(status_page_json, "make_flow_detail", detail)
    for text in ("", "ord", "x", *map(str, range(500))):
        found = browser.json("/ui/api/flow", flow="east->west", topic=text)
        assert found["topics_found"] == (text in "orders")
    assert made == [1]


def test_groups_are_looked_for_by_so_many_texts_in_one_look(browser):
    texts = []

    def find(text, _):
        texts.append(text)
        return GroupSearchResult(total_count=0, matching_count=0, groups={})

    def ask(text, status=200):
        return browser.json("/ui/api/groups", status=status, flow="east->west", group=text)

    browser.board.create_groups_publisher("east->west", 0).publish(
        CheckpointGroupsSnapshot(last_round_s=1, last_round_wall_ms=1, find_groups=find)
    )
    wanted = ["", *map(str, range(page_routes.SEARCHES_MAX))]
    for text in wanted * 2:
        ask(text)
    assert texts == wanted, "each once"
    assert "try again" in ask("one more", status=503)["error"]
    assert ask("")["version"] == 1
    browser.seen.look()
    ask("one more")
    assert texts[-1] == "one more"


def test_searches_keep_no_other_page_from_being_shown(browser):
    """Also those that are refused, which anyone can send."""
    asked = {"flow": "east->west"}
    browser.board.create_groups_publisher("east->west", 0).publish(
        CheckpointGroupsSnapshot(
            last_round_s=1,
            last_round_wall_ms=1,
            find_groups=lambda *_: GroupSearchResult(total_count=0, matching_count=0, groups={}),
        )
    )
    for number in range(3 * page_routes.SEARCHES_MAX):
        status = 200 if number < page_routes.SEARCHES_MAX else 503
        browser.json("/ui/api/groups", status=status, group=f"g{number}", **asked)
    assert browser.json("/ui/api/overview")["version"] == 1
    assert browser.json("/ui/api/flow", **asked)["version"] == 1
    assert browser.json("/ui/api/groups", **asked)["version"] == 1
    browser.json("/ui/api/groups", status=200, group="g0", **asked)


def test_long_texts_are_cut_before_they_are_looked_for(browser):
    texts = []

    def find(text, _):
        texts.append(len(text))
        return GroupSearchResult(total_count=0, matching_count=0, groups={})

    browser.board.create_groups_publisher("east->west", 0).publish(
        CheckpointGroupsSnapshot(last_round_s=1, last_round_wall_ms=1, find_groups=find)
    )
    browser.json("/ui/api/groups", flow="east->west", group="x" * 5_000)
    assert texts == [page_routes.SEARCH_CHARS_MAX]
