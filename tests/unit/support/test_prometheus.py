"""Rules, hastened: what takes time takes a tenth of it, and nothing else is another."""

from __future__ import annotations

import yaml

from tests.support import prometheus, rules

GIVEN = """
groups:
  - name: g
    rules:
      - record: mm2:limit:seconds
        expr: vector(600)
        labels: {of: lag}
      - alert: A
        expr: increase(x_total[30m]) > 300 unless x_total offset 1h
        for: 10m
      - alert: B
        expr: rate(x_total[5s]) > 0
"""


def test_windows_waits_and_limits_are_shorter_and_counts_are_not():
    limit, alert, short = yaml.safe_load(prometheus.hastened(GIVEN, 10))["groups"][0]["rules"]
    assert (limit["expr"], limit["labels"]) == ("vector(60)", {"of": "lag"})
    assert alert["expr"] == "increase(x_total[180000ms]) > 300 unless x_total offset 360000ms"
    assert alert["for"] == "60000ms"
    assert "for" not in short


def test_no_window_is_shorter_than_a_few_samples():
    short = yaml.safe_load(prometheus.hastened(GIVEN, 10))["groups"][0]["rules"][2]
    assert short["expr"] == "rate(x_total[3000ms]) > 0"


def test_no_window_of_the_real_rules_is_left_as_it_was():
    for file in sorted((rules.PROMETHEUS / "rules").glob("*.yml")):
        for group in yaml.safe_load(prometheus.hastened(file.read_text(), 10))["groups"]:
            for rule in group["rules"]:
                assert not any(f"{unit}]" in rule["expr"] for unit in "mhdw"), rule
                assert rule.get("for", "ms").endswith("ms"), rule
