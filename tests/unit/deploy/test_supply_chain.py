"""What mm2 is made of is listed, looked up and installed by its locks alone."""

from __future__ import annotations

import http.server
import json
import re
import threading
from collections.abc import Callable

import pytest

from deploy.locks import audit, locked, sbom
from tests.support.deployed import image

MAKEFILE = (image.ROOT / "Makefile").read_text()


def test_the_bill_names_everything_that_is_locked_to_run_and_to_build():
    bill = sbom.build_sbom()
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    listed = {each["purl"]: each["scope"] for each in bill["components"]}
    for package in locked.read(locked.RUNTIME):
        assert listed[package.purl] == "required"
    assert listed.keys() >= {each.purl for each in locked.read(locked.BUILD)}
    assert "pkg:pypi/pyspark@4.3.0" in listed
    assert len(listed) == len(bill["components"])
    (root,) = bill["dependencies"]
    assert {*root["dependsOn"]} == {purl for purl, scope in listed.items() if scope == "required"}


def test_every_component_has_the_hashes_of_its_lock():
    text = locked.RUNTIME.read_text() + locked.BUILD.read_text()
    for each in sbom.build_sbom()["components"]:
        hashes = [found["value"] for found in each["properties"]]
        assert hashes
        assert all(f"--hash=sha256:{found}" in text for found in hashes)


def test_the_same_locks_give_the_same_bill():
    assert sbom.build_sbom() == sbom.build_sbom()


def test_a_lock_without_hashes_is_refused(tmp_path):
    lock = tmp_path / "x.lock"
    lock.write_text("click==8.4.0\n")
    with pytest.raises(ValueError, match="no hash for click"):
        locked.read(lock)
    lock.write_text("")
    with pytest.raises(ValueError, match="no hash for anything"):
        locked.read(lock)


@pytest.fixture
def database():
    """Answers with `body` made of the queries, as `https://api.osv.dev/v1/querybatch`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(server.answer(asked["queries"])).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        answer: Callable[..., object] = staticmethod(
            lambda queries: {"results": [{} for _ in queries]}
        )

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)  # noqa: TID251 - it ends with the test
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def url(database) -> str:
    return f"http://127.0.0.1:{database.server_port}/"


def test_what_the_database_knows_is_told(database):
    def answer(queries):
        purls = [each["package"]["purl"] for each in queries]
        assert len(purls) == len(set(purls)) == len(audit.packages())
        bad = [{"vulns": [{"id": "GHSA-1"}, {"id": "GHSA-2"}]}]
        return {"results": [bad[0] if each.startswith("pkg:pypi/click@") else {} for each in purls]}

    database.answer = answer
    code, said = audit.run(url=url(database))
    assert code == audit.SOME_KNOWN
    assert re.fullmatch(r"pkg:pypi/click@[\d.]+: GHSA-1, GHSA-2", said[0])
    assert said[1].startswith("1 of ")


def test_nothing_known_is_no_failure(database):
    code, said = audit.run(url=url(database))
    assert (code, said[0][:5]) == (audit.NONE_KNOWN, "0 of ")


@pytest.mark.parametrize("answer", [{}, {"results": []}, {"results": None}, []])
def test_a_database_that_does_not_answer_is_not_taken_for_a_clean_bill(database, answer):
    database.answer = lambda _: answer
    code, said = audit.run(url=url(database))
    assert code == audit.NOT_AUDITED
    assert said[0].startswith("NOT audited")


def test_without_a_network_it_says_that_it_was_not_done(database):
    address = url(database)
    database.server_close()
    code, said = audit.run(url=address)
    assert code == audit.NOT_AUDITED
    assert said[0].startswith("NOT audited")


def test_setup_takes_nothing_that_has_no_hash():
    installs = re.findall(r"^\t@\$\(PIP\) (.*)$", MAKEFILE, re.MULTILINE)
    assert installs == [
        "--require-hashes -r $(BUILD_LOCK)",
        "--no-build-isolation --require-hashes -r requirements.lock",
        "--no-build-isolation --no-deps -e .",
    ]
    assert MAKEFILE.count("pip install") == 1
    assert "hatchling" in {each.name for each in locked.read(locked.BUILD)}
    assert "editables" in {each.name for each in locked.read(locked.BUILD)}


def test_both_locks_of_a_checkout_agree():
    whole = {each.name: each.version for each in locked.read(locked.DEVELOPMENT)}
    for each in locked.read(locked.BUILD):
        assert whole.get(each.name, each.version) == each.version
