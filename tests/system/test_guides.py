"""Whoever follows a guide literally, in an empty folder, gets where it leads: every block works."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import guides, mirror
from tests.support.guides import Block
from tests.support.image import stand_in
from tests.support.image.stand_in import CannotStandInError

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

FOLDER = mirror.ROOT / "docs" / "guides"
FOLLOW_S = 600.0
INSTALL = FOLDER / "install.md"
LONG = (FOLDER / "failover.md", FOLDER / "from-mirrormaker2.md", FOLDER / "security.md")
"""What they do is proven in quick tests as well: test_failover*.py; test_source_take_over.py and
test_mixed_workers.py in tests/interop, test_java_way_back.py and test_cluster_secure.py in
tests/integration."""
PAGES = sorted(
    page
    for page in FOLDER.glob("*.md")
    if page != INSTALL and guides.blocks(page.read_text(encoding="utf-8"))
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short paths: names of Unix sockets have 107 characters at most."""
    try:
        stand_in.check()
    except CannotStandInError as error:
        pytest.skip(f"no namespaces here, in which guides are followed: {error}")
    made = Path(tempfile.mkdtemp(prefix="guide-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def followed(text: str, folder: Path, timeout_s: float = FOLLOW_S) -> list[str]:
    return obeyed(guides.blocks(text), folder, timeout_s)


def obeyed(asked: list[Block], folder: Path, timeout_s: float = FOLLOW_S) -> list[str]:
    code, said = guides.follow(asked, folder=folder, timeout_s=timeout_s)
    return guides.wrong(asked, said, code)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.full if page in LONG else ()) for page in PAGES],
    ids=lambda page: page.stem,
)
def test_a_guide_works_as_printed(page: Path, folder: Path):
    asked = guides.blocks(page.read_text(encoding="utf-8"))
    code, said = guides.follow(asked, folder=folder, timeout_s=FOLLOW_S)
    found = guides.wrong(asked, said, code)
    assert not found, "\n\n".join(found)
    if any("mm2 sandbox up" in each.text for each in asked):
        assert re.search(r"^port 19092 is in use: \w+ uses \d+ instead$", said, re.MULTILINE)


@pytest.mark.full
def test_it_is_installed_as_printed(folder: Path):
    """In a copy of the checkout, from a package index."""
    asked = guides.blocks(INSTALL.read_text(encoding="utf-8"))
    assert len(asked) == 3
    code, said = guides.follow(asked, folder=folder, timeout_s=FOLLOW_S, checkout=mirror.ROOT)
    found = guides.wrong(asked, said, code)
    assert not found, "\n\n".join(found)


README = mirror.ROOT / "README.md"
CLUSTERS = """\
mm2 sandbox up east west
eval "$(mm2 sandbox env)"
mm2 sandbox kafka topics --cluster east --create --topic orders
seq 1 100 | mm2 sandbox kafka console-producer --cluster east --topic orders
"""


def test_the_quick_start_of_the_readme_works_as_printed(folder: Path):
    """With two clusters of the sandbox for the reader's own, and `mm2 run` until it caught up."""
    (typed,) = re.findall(r"```sh\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    for written, meant in (
        ("kafka-east.example:9092", "$EAST"),
        ("kafka-west.example:9092", "$WEST"),
        ("<<'END'", "<<END"),
        ("mm2 run ", "mm2 run --until-caught-up --timeout 300 "),
    ):
        assert typed.count(written) == 1
        typed = typed.replace(written, meant)
    asked = [
        Block(line=1, text=CLUSTERS),
        Block(line=2, text=typed, prints="caught up: … 100 records"),
        Block(line=3, text="mm2 sandbox down\n"),
    ]
    found = obeyed(asked, folder)
    assert not found, "\n\n".join(found)


AUTHORS = mirror.ROOT / "connect_runtime" / "README.md"
WORKER = """\
mkdir plugins
cat > plugins/table_source.py <<'END'
{source}
END
cat > plugins/table_sink.py <<'END'
{sink}
END
python3 - <<'END'
import sqlite3
with sqlite3.connect("shop.db") as shop:
    for table in ("orders", "people"):
        shop.execute(f"CREATE TABLE {{table}} (name TEXT)")
        shop.execute(f"INSERT INTO {{table}} VALUES ('one of {{table}}')")
END
mm2 sandbox up east
eval "$(mm2 sandbox env)"
cat > worker.properties <<END
bootstrap.servers=$EAST
group.id=shop
config.storage.topic=shop-configs
offset.storage.topic=shop-offsets
status.storage.topic=shop-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
plugin.path=$PWD/plugins
END
for topic in shop.orders shop.people; do
  mm2 sandbox kafka topics --create --topic $topic
done
connect-distributed worker.properties > worker.log 2>&1 &
until curl -fsS localhost:8083/connectors; do sleep 1; done
"""
ARRIVED = """\
for topic in shop.orders shop.people; do
  mm2 sandbox kafka console-consumer --topic $topic \\
    --from-beginning --max-messages 1 --timeout-ms 60000
done
curl -fsS localhost:8083/connectors/tables/status
"""


def test_the_authors_guide_works_as_printed(folder: Path):
    """Its connectors, put where it says, made by the command that it prints."""
    page = AUTHORS.read_text(encoding="utf-8")
    source, sink = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (made,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert "/data/shop.db" in made
    made = made.replace("/data/shop.db", str(folder / "here" / "shop.db"))
    told = '{"name":"one of orders"}\n{"name":"one of people"}'
    asked = [
        Block(line=1, text=WORKER.format(source=source, sink=sink)),
        Block(line=2, text=made, prints='"name":"tables"'),
        Block(line=3, text=ARRIVED, prints=told),
    ]
    found = obeyed(asked, folder, timeout_s=180.0)
    assert not found, "\n\n".join(found)


FENCE = "```"
SMALL = f"""
{FENCE}sh
printf 'clusters: {{a: {{bootstrap.servers: "a:1"}}, b: {{bootstrap.servers: "b:1"}}}}\\n' > c.yaml
printf 'flows: [{{from: a, to: b}}]\\n' >> c.yaml
mm2 config check c.yaml
{FENCE}

{FENCE}text
c.yaml: 2 clusters, … a->b
{FENCE}

{FENCE}console docker
$ something that is nowhere
{FENCE}

{FENCE}sh
test -e c.yaml && ! test -e {mirror.ROOT.name} && echo here
{FENCE}
"""


def test_blocks_are_one_shell_in_an_empty_folder(folder):
    assert followed(SMALL, folder) == []


@pytest.mark.parametrize(
    ("old", "new", "told", "timeout_s"),
    [
        ("mm2 config check", "mm2 config chekc", "ended with 2", FOLLOW_S),
        ("c.yaml: 2 clusters, …", "c.yaml: 3 clusters, …", "is not in", FOLLOW_S),
        ("test -e c.yaml", "test -e other.yaml", "ended with 1", FOLLOW_S),
        ("mm2 config check c.yaml", "sleep 60", "ended with 124", 3.0),
        ("mm2 config check c.yaml", "false | true", "ended with 1", FOLLOW_S),
    ],
)
def test_what_does_not_work_is_seen(folder, old, new, told, timeout_s):
    assert old in SMALL
    found = followed(SMALL.replace(old, new), folder, timeout_s)
    assert any(told in each for each in found), found


def test_a_guide_that_connects_to_a_foreign_kafka_is_seen(folder):
    typed = "(exec 3<>/dev/tcp/127.0.0.1/19092)\nsleep 1"
    found = followed(f"{FENCE}sh\n{typed}\n{FENCE}\n", folder)
    assert found == ["::connected to the foreign program at port 19092"]


def test_what_runs_on_ends_with_the_guide(folder):
    begun = f"{FENCE}sh\n(sleep 300; touch late) &\necho $! > pid\n{FENCE}\n"
    assert followed(begun, folder) == []
    still = [
        each
        for each in Path("/proc").glob("[0-9]*/cwd")
        if each.exists() and str(each.resolve()).startswith(str(folder))
    ]
    assert still == []
