from __future__ import annotations

from xml.etree import ElementTree

from mm2.sandbox import ivy


def test_every_module_is_asked_for_with_its_dependencies():
    root = ElementTree.fromstring(ivy.module_descriptor(["org.a:b_2.13:1.0", "c:d:2"]))

    found = [dict(dependency.attrib) for dependency in root.iter("dependency")]

    assert found == [
        {"org": "org.a", "name": "b_2.13", "rev": "1.0", "conf": "default->default(*)"},
        {"org": "c", "name": "d", "rev": "2", "conf": "default->default(*)"},
    ]


def test_progress_is_told_every_twenty_and_at_the_end():
    told: list[str] = []
    progress = ivy.Progress(45, told.append)

    for number in range(45):
        progress.feed(f"\tfound org#module-{number};1 in public\n")
        progress.feed("downloading https://example.org/x.jar ...\n")
    for number in range(45):
        progress.feed(f"\t[SUCCESSFUL ] org#module-{number};1!x.jar (3ms)\n")

    assert told == [
        "  modules looked up: 20 of 45",
        "  modules looked up: 40 of 45",
        "  modules looked up: 45 of 45",
        "  jars downloaded: 20 of 45",
        "  jars downloaded: 40 of 45",
        "  jars downloaded: 45 of 45",
    ]
