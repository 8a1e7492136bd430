"""Known vulnerabilities of everything in the locks, as the OSV database has them.

    python -m deploy.locks.audit

It ends with 0 if the database knows of none, 1 if it knows of some, and 3 if it did not answer, so
that nothing is known.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence

from deploy.locks import locked
from deploy.locks.locked import Package

OSV = "https://api.osv.dev/v1/querybatch"
_TIMEOUT_S = 30.0
_BATCH = 500
_ANSWER_BYTES_MAX = 32 << 20
NONE_KNOWN, SOME_KNOWN, NOT_AUDITED = 0, 1, 3


class NotAnsweredError(Exception):
    """The database could not be reached, or its answer says nothing."""


def packages() -> Sequence[Package]:
    """Of all locks, each version once."""
    found = {
        each.purl: each
        for lock in (locked.RUNTIME, locked.BUILD, locked.DEVELOPMENT)
        for each in locked.read(lock)
    }
    return [found[purl] for purl in sorted(found)]


def find_vulnerabilities(
    asked: Sequence[Package], *, url: str = OSV
) -> Mapping[str, Sequence[str]]:
    """Ids of vulnerabilities by package URL. Raises `NotAnsweredError`."""
    found: dict[str, Sequence[str]] = {}
    for at in range(0, len(asked), _BATCH):
        batch = asked[at : at + _BATCH]
        answers = _ask(batch, url)
        for package, answer in zip(batch, answers, strict=True):
            ids = [str(each["id"]) for each in (answer or {}).get("vulns", [])]
            if ids:
                found[package.purl] = ids
    return found


def _ask(batch: Sequence[Package], url: str) -> Sequence[Mapping[str, list[Mapping[str, object]]]]:
    queries = [{"package": {"purl": each.purl}} for each in batch]
    request = urllib.request.Request(  # noqa: S310 - the scheme is ours
        url,
        data=json.dumps({"queries": queries}).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            results = json.loads(answer.read(_ANSWER_BYTES_MAX))["results"]
    except (OSError, urllib.error.URLError, ValueError, KeyError, TypeError) as error:
        raise NotAnsweredError(f"{url}: {error}") from error
    if not isinstance(results, list) or len(results) != len(batch):
        raise NotAnsweredError(f"{url}: the answer is not one result for each package")
    return results


def run(*, url: str = OSV) -> tuple[int, list[str]]:
    """The exit code, and what to print."""
    asked = packages()
    try:
        found = find_vulnerabilities(asked, url=url)
    except NotAnsweredError as error:
        return NOT_AUDITED, [f"NOT audited: no vulnerability database answered ({error})"]
    lines = [f"{purl}: {', '.join(ids)}" for purl, ids in sorted(found.items())]
    told = f"{len(found)} of {len(asked)} locked packages have known vulnerabilities"
    return (SOME_KNOWN if found else NONE_KNOWN), [*lines, f"{told} (https://osv.dev)"]


if __name__ == "__main__":
    code, said = run()
    print("\n".join(said))  # noqa: T201 - it is a command
    sys.exit(code)
