from __future__ import annotations

import pytest

from connect_runtime.ports import pages


def named(name: str) -> pages.Make:
    return lambda _: pages.Page(body=name.encode())


SERVED: pages.Pages = {
    path: named(path) for path in ("/", "/ui", "/ui/", "/ui/api/", "/health/live")
}


@pytest.mark.parametrize(
    ("path", "whose"),
    [
        ("/", "/"),
        ("/ui", "/ui"),
        ("/ui/", "/ui/"),
        ("/ui/style.css", "/ui/"),
        ("/ui/api/flows", "/ui/api/"),
        ("/health/live", "/health/live"),
        ("/health/live/", None),
        ("/health/lives", None),
        ("/uiapi", None),
        ("/a/b/connectors", None),
    ],
)
def test_the_longest_that_fits_has_the_page(path, whose):
    make = pages.find(SERVED, path)
    found = None if make is None else make(pages.Asked(path=path)).body.decode()
    assert found == whose
