"""Dashboards: made by the generator as they are committed, and of use to who is woken."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grafana.generator import boards as generator
from tests.support import boards

BOARDS = boards.read()
PANELS = [
    pytest.param(panel, id=f"{uid}-{panel['title']}")
    for uid, board in BOARDS.items()
    for panel in boards.panels(board)
]
STAT = next(panel for panel in boards.panels(BOARDS["mm2-overview"]) if panel["type"] == "stat")


def test_what_is_committed_is_what_the_generator_makes(tmp_path: Path):
    generator.write(tmp_path)
    made = {file.name: file.read_text() for file in tmp_path.glob("*.json")}
    committed = {file.name: file.read_text() for file in generator.FOLDER.glob("*.json")}
    assert made.keys() == committed.keys()
    for name, text in made.items():
        assert text == committed[name], f"{name} is old: python -m grafana.generator"


def test_boards_that_are_no_longer_made_go(tmp_path: Path):
    (tmp_path / "mm2-old.json").write_text("{}")
    generator.write(tmp_path)
    assert not (tmp_path / "mm2-old.json").exists()


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_says_what_it_shows_and_never_paints_nothing_green(panel: dict[str, Any]):
    assert boards.judged(panel) == []


def without(*path: str) -> Callable[[dict[str, Any]], None]:
    def take(panel: dict[str, Any]) -> None:
        place = panel
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return take


def green_when_unknown(panel: dict[str, Any]) -> None:
    panel["fieldConfig"]["defaults"]["mappings"][0]["options"]["result"]["color"] = "green"


def leads_nowhere(panel: dict[str, Any]) -> None:
    panel["links"][0]["url"] = "${runbooks}/Mm2Nothing.md"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (without("description"), "does not say what it shows"),
        (without("fieldConfig", "defaults", "unit"), "has no unit"),
        (without("fieldConfig", "defaults", "noValue"), "does not say what it means that nothing"),
        (without("fieldConfig", "defaults", "mappings"), "shows nothing known in a colour"),
        (without("fieldConfig", "defaults", "thresholds"), "has no thresholds"),
        (green_when_unknown, "shows nothing known in a colour"),
        (leads_nowhere, "leads to ${runbooks}/Mm2Nothing.md"),
    ],
)
def test_what_a_panel_lacks_is_told(fault: Callable[[dict[str, Any]], None], told: str):
    panel = copy.deepcopy(STAT)
    fault(panel)
    (said,) = boards.judged(panel)
    assert said.startswith(told)


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_a_board_can_be_narrowed_and_leads_to_the_others(board: dict[str, Any]):
    names = [each["name"] for each in board["templating"]["list"]]
    assert names[:2] == ["datasource", "flow"]
    assert "runbooks" in names
    assert board["links"][0]["tags"] == board["tags"] == [generator.TAG]
    used = {
        each["datasource"]["uid"] for panel in boards.panels(board) for each in panel["targets"]
    }
    assert used == {"${datasource}"}


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_panels_have_places_of_their_own_and_rows_come_first(board: dict[str, Any]):
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        across = range(place["x"], place["x"] + place["w"])
        down = range(place["y"], place["y"] + place["h"])
        cells = {(x, y) for x in across for y in down}
        assert across.stop <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    assert board["panels"][0]["type"] == "row"


def test_the_page_about_boards_names_each_and_its_pictures_are_small():
    page = (generator.FOLDER.parent / "README.md").read_text()
    for uid, board in BOARDS.items():
        assert f"[{board['title']}](dashboards/{uid}.json)" in page
    pictures = re.findall(r"\((pictures/[\w-]+\.png)\)", page)
    assert len(pictures) >= 4
    for name in pictures:
        assert (generator.FOLDER.parent / name).stat().st_size < 150_000, name
