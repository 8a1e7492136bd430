from __future__ import annotations

from tests.bench import results, scrape_report
from tests.bench.results import Results, Scraping


def measured(*, seconds: float = 0.25, to_without: float = 0.99) -> Results:
    found = Results()
    for path in scrape_report.PATHS:
        for number in (1, 2, 3):
            found.add(
                Scraping(
                    path=path,
                    round=number,
                    partitions=10_000,
                    took_s=seconds * number,
                    cpu_s=0.05,
                    bytes=2e6,
                    load=1.5,
                )
            )
    for number in (1, 2, 3):
        found.add(
            Scraping(
                path=results.BY_PARTITION,
                round=number,
                partitions=10_000,
                while_copying=True,
                took_s=seconds,
                to_without=to_without + (number - 2) / 10,
                load=2.0,
            )
        )
    return found


def test_without_the_row_there_is_nothing_to_say():
    nothing = Results()
    assert scrape_report.render(nothing) == scrape_report.brief(nothing) == ""
    assert scrape_report.expectations(nothing) == []


def test_each_path_is_a_line_and_so_is_what_is_scraped_while_copying():
    text = scrape_report.render(measured())
    assert "\n| by topic | 500 (250-750) | 50.0 | 2.00 | - | 1.50 |\n" in text
    assert (
        "\n| by partition, while a backlog is copied | 250 | - | - | 0.99 (0.89-1.09) | 2.00 |\n"
        in text
    )
    assert text.count("- met: ") == 5
    assert len(scrape_report.brief(measured()).splitlines()) == 2 + 4


def test_a_second_is_too_long_and_a_twentieth_less_is_slower():
    assert [each.met for each in scrape_report.expectations(measured(seconds=0.5))] == [
        False,
        False,
        True,
        False,
        True,
    ]
    assert not scrape_report.expectations(measured(to_without=0.95))[-1].met


def test_what_failed_does_not_count_and_is_told():
    found = Results()
    found.add(Scraping(path=results.BY_PARTITION, round=1, partitions=9, fault="it has ended"))
    assert found.faults() == ["mm2, round 1, scraped by partition: it has ended"]
    assert scrape_report.expectations(found) == []
