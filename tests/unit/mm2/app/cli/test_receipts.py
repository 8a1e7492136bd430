from __future__ import annotations

import json

import pytest

from connect_runtime.base import errors
from mm2.app import exits
from mm2.app.cli import main
from mm2.app.looks import receipts
from mm2.formats import receipt

GONE, UNPAIRED = receipt.ReceiptKind.SOURCE_GONE, receipt.ReceiptKind.NOT_PAIRED


def stated(topic, kind, **more):
    return receipt.Receipt(
        topic=topic,
        partition=0,
        id=f"{topic}-{kind.value}",
        kind=kind,
        flow="east->west",
        at_ms=1_700_000_000_000,
        detail="deleted before it was copied",
        **more,
    )


@pytest.fixture
def topics(monkeypatch):
    """What the receipts topics of the targets have, by the source's alias."""
    found: dict[str, list[receipt.Receipt] | errors.ConnectError] = {
        "east": [stated("orders", GONE, source=(3, 9)), stated("bills", UNPAIRED, target=(1, 2))],
        "west": [],
    }

    def read(side, source, *, timeout_s):
        assert side.alias != source
        answer = found[source]
        if isinstance(answer, errors.ConnectError):
            raise answer
        return answer

    monkeypatch.setattr(receipts, "read", read)
    return found


def listed(capsys):
    return [line.split()[1:5] for line in capsys.readouterr().out.splitlines()[1:]]


def test_all_receipts_of_all_flows(topics, config, capsys):
    assert main.run(["receipts", str(config)]) == exits.DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        *("AT", "FLOW", "TOPIC", "PARTITION", "KIND", "SOURCE", "MIRROR", "DETAIL"),
    ]
    assert lines[1].split()[:7] == [
        *("2023-11-14T22:13:20Z", "east->west", "orders", "0", "source-gone", "[3,9)", "-"),
    ]
    assert lines[2].split()[5:7] == ["-", "[1,2)"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--topic", "orders"], [["east->west", "orders", "0", "source-gone"]]),
        (["--kind", "not-paired"], [["east->west", "bills", "0", "not-paired"]]),
        (["--kind", "not-paired", "--topic", "orders"], []),
        (["--flow", "west->east"], []),
    ],
)
def test_only_some(topics, config, capsys, options, expected):
    assert main.run(["receipts", str(config), *options]) == exits.DONE
    assert listed(capsys) == expected


@pytest.mark.parametrize(
    ("options", "code"),
    [([], exits.FAILED), (["--topic", "x"], exits.DONE), (["--kind", "source-gone"], exits.FAILED)],
)
def test_scripts_may_fail_where_there_is_any(topics, config, capsys, options, code):
    assert main.run(["receipts", str(config), "--exit-code", *options]) == code


def test_programs(topics, config, capsys):
    assert main.run(["receipts", str(config), "--json", "--topic", "orders"]) == exits.DONE
    assert json.loads(capsys.readouterr().out) == {
        "version": 1,
        "receipts": [
            {
                "flow": "east->west",
                "topic": "orders",
                "partition": 0,
                "kind": "source-gone",
                "source": [3, 9],
                "target": None,
                "at_ms": 1_700_000_000_000,
                "detail": "deleted before it was copied",
                "id": "orders-source-gone",
            }
        ],
    }


def test_none_is_said(topics, config, capsys):
    topics["east"] = []
    assert main.run(["receipts", str(config)]) == exits.DONE
    assert capsys.readouterr().out == "no receipts\n"


def test_a_target_that_does_not_answer(topics, config, capsys):
    topics["east"] = errors.RetriableError("no route")
    assert main.run(["receipts", str(config)]) == exits.FAILED
    assert "no route" in capsys.readouterr().err


def test_an_unknown_kind_is_bad_input(config, capsys):
    assert main.run(["receipts", str(config), "--kind", "x"]) == exits.BAD_INPUT
