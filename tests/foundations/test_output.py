"""The output formats."""

import json

import yaml

from floodmark.output import Column, OutputFormat, Plain, render

COLUMNS = (
    Column(key="name", title="NAME"),
    Column(key="partitions", title="PARTITIONS", right=True),
    Column(key="replicas", title="REPLICAS", wide=True),
)
ROWS: list[dict[str, Plain]] = [
    {"name": "events", "partitions": 12, "replicas": [1, 2, 3]},
    {"name": "Überlauf", "partitions": None, "replicas": []},
]


def show(output: OutputFormat, rows: list[dict[str, Plain]] = ROWS) -> str:
    return render({"topics": rows}, rows=rows, columns=COLUMNS, output=output)


def test_table_aligns_columns_and_hides_the_wide_ones() -> None:
    assert show(OutputFormat.TABLE) == (
        "NAME      PARTITIONS\n"
        "events            12\n"
        "Überlauf           -\n"
    )  # fmt: skip


def test_wide_shows_all_columns() -> None:
    assert show(OutputFormat.WIDE).splitlines()[1:] == [
        "events            12  1,2,3",
        "Überlauf           -  -",
    ]


def test_wide_characters_do_not_break_the_alignment() -> None:
    lines = show(OutputFormat.TABLE, [{"name": "洪水", "partitions": 1}]).splitlines()
    assert lines == ["NAME  PARTITIONS", "洪水           1"]


def test_table_without_rows_is_its_header() -> None:
    assert show(OutputFormat.TABLE, []) == "NAME  PARTITIONS\n"


def test_long_values_are_never_cut() -> None:
    name = "x" * 500
    assert name in show(OutputFormat.TABLE, [{"name": name}])


def test_control_characters_cannot_reach_the_terminal() -> None:
    shown = show(OutputFormat.TABLE, [{"name": "\x1b[2Jgone\nrow"}])
    assert "\x1b" not in shown
    assert shown.count("\n") == 2
    assert r"\x1b[2Jgone\nrow" in shown


def test_json_and_yaml_hold_the_whole_document() -> None:
    assert json.loads(show(OutputFormat.JSON)) == {"topics": ROWS}
    assert yaml.safe_load(show(OutputFormat.YAML)) == {"topics": ROWS}
