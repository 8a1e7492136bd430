"""Adds files of the repository that pages link to, such as runbooks and samples, to the site.

A link that leaves `docs/` is rewritten to a copy under `repository/`. A link to a folder becomes
a link to its README, or plain text if it has none. A link to a file that does not exist is left
as it is, so that MkDocs reports it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
COPIES = "repository"
_LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the runbooks, and what pages link to, and what those link to."""
    for each in sorted((ROOT / "deploy" / "runbooks").glob("*.md")):
        _add(f"{COPIES}/{each.relative_to(ROOT).as_posix()}", files, config)
    waiting = [file.src_uri for file in files.documentation_pages()]
    while waiting:
        uri = waiting.pop()
        source = _path(uri)
        if source.suffix != ".md":
            continue
        for link in _LINK.finditer(source.read_text(encoding="utf-8")):
            copy = _copy_of(uri, link["target"])
            if copy is not None and files.get_file_from_path(copy) is None:
                _add(copy, files, config)
                waiting.append(copy)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links that leave `docs/`."""
    uri = page.file.src_uri

    def rewrite(link: re.Match[str]) -> str:
        copy = _copy_of(uri, link["target"])
        if copy is not None:
            target = posixpath.relpath(copy, posixpath.dirname(uri) or ".")
            return f"{link['text']}({target}{link['anchor'] or ''})"
        if _is_folder(uri, link["target"]):
            return link["text"].lstrip("!")[1:-1]
        return link[0]

    return _LINK.sub(rewrite, markdown)


def _add(copy: str, files: Files, config: MkDocsConfig) -> None:
    files.append(File.generated(config, copy, abs_src_path=str(_path(copy))))


def _path(uri: str) -> Path:
    """The file behind a page of the site."""
    inside = uri.removeprefix(f"{COPIES}/")
    return ROOT / inside if inside != uri else ROOT / "docs" / uri


def _linked_path(uri: str, target: str) -> Path | None:
    """What a relative link leads to; None if it is an address or leaves the repository."""
    if ":" in target:
        return None
    path = (_path(uri).parent / target).resolve()
    return path if path.is_relative_to(ROOT) else None


def _copy_of(uri: str, target: str) -> str | None:
    """The site's page for a linked file, or for a folder's README; None: the link is left alone."""
    path = _linked_path(uri, target)
    if path is not None and path.is_dir() and (path / "README.md").is_file():
        path /= "README.md"
    if path is None or not path.is_file():
        return None
    if path.is_relative_to(ROOT / "docs"):
        return path.relative_to(ROOT / "docs").as_posix()
    return f"{COPIES}/{path.relative_to(ROOT).as_posix()}"


def _is_folder(uri: str, target: str) -> bool:
    path = _linked_path(uri, target)
    return path is not None and path.is_dir()
