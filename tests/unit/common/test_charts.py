"""Charts: the numbers that stand below them, and what the script reads."""

import json
import re

import pytest
from django.template.loader import render_to_string

from portal.common.charts import Chart, Line, number_words

LINES = [Line("GPU 0", [10, None, 30.5]), Line("GPU 1", [None, None, None], colour="failed")]


def shown(chart: Chart) -> str:
    return render_to_string("parts/chart.html", {"chart": chart})


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "–"), (0, "0"), (1.234, "1.23"), (12.34, "12.3"), (1234.56, "1235"), (60.0, "60"), (-0.5, "-0.5")],
)
def test_numbers_are_as_exact_as_one_reads_them(value: float | None, words: str) -> None:
    assert number_words(value) == words


def test_a_line_is_summed_up_without_the_points_that_are_not_known() -> None:
    assert (LINES[0].now, LINES[0].average, LINES[0].peak) == ("30.5", "20.2", "30.5")
    assert (LINES[1].now, LINES[1].average, LINES[1].peak) == ("–", "–", "–")


def test_the_table_says_without_script_what_the_chart_shows() -> None:
    html = shown(Chart("gpu", "GPU utilisation", "%", LINES, times=[10, 20, 30]))
    words = " ".join(re.sub(r"<script.*?</script>|<[^>]+>", " ", html, flags=re.DOTALL).split())
    assert words == "GPU utilisation % Last Average Peak GPU 0 30.5 20.2 30.5 GPU 1 – – –"


def test_the_script_reads_what_was_measured() -> None:
    found = re.search(
        r'<script type="application/json">(.*?)</script>', shown(Chart("gpu", "GPU", "%", LINES, [1, 2, 3]))
    )
    assert found
    data = json.loads(found[1])
    assert data["times"] == [1, 2, 3]
    assert data["lines"][0] == {"name": "GPU 0", "values": [10, None, 30.5], "colour": ""}


def test_a_chart_of_names_is_a_table_of_them() -> None:
    chart = Chart("vc", "GPU hours", "h", [Line("held", [4, 1]), Line("used", [2, None])], names=["vision", "speech"])
    assert chart.rows == [("vision", ["4", "2"]), ("speech", ["1", "–"])]
    assert '<th scope="row">speech</th><td>1</td><td>–</td>' in shown(chart)


def test_names_are_text_whatever_they_hold() -> None:
    name = "</script><script>alert(1)</script>"
    assert "<script>alert" not in shown(Chart("x", name, "", [Line(name, [1])], names=[name]))


def test_where_nothing_was_measured_it_says_so() -> None:
    html = shown(Chart("gpu", "GPU", "%", [LINES[1]], times=[1, 2, 3]))
    assert "Nothing was measured in this period." in html
    assert "data-chart-plot" not in html
