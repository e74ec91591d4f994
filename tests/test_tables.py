"""The tables of the pages are those of docs/results, and a changed number, or a mark without rows, is noticed."""

import pytest

from docs.extensions.tables import main, pages, with_tables

MARK = """<!-- table: rows.jsonl
study: a
columns: method; share of all = share
method: none; LSAR
-->
<!-- end -->
"""
ROWS = """{"study": "a", "method": "none", "share": 58.0}
{"study": "a", "method": "LSAR", "share": [1.50, 2]}
{"study": "a", "method": "CBIE", "share": 3}
{"study": "b", "method": "LSAR", "share": 4}
"""


def test_the_pages_are_what_the_files_say():
    assert main(["--check"]) == 0, "write them anew: python docs/extensions/tables.py"
    assert sum(page.read_text(encoding="utf-8").count("<!-- table: ") for page in pages()) > 20


def test_a_table_has_the_rows_and_columns_of_its_mark(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"Before\n\n{MARK}\nAfter\n")
    (tmp_path / "rows.jsonl").write_text(ROWS)
    text = with_tables(page)
    assert "-->\n| method | share of all |\n| --- | ---: |\n| none | 58.0 |\n| LSAR | 1.50 / 2 |\n<!-- end -->" in text
    page.write_text(text)
    assert with_tables(page) == text
    page.write_text(text.replace("58.0", "59.0"))
    assert with_tables(page) == text


@pytest.mark.parametrize(("old", "new"), [("study: a", "study: c"), ("= share", "= shares"), ("LSAR", "LSARs")])
def test_a_mark_of_nothing_is_an_error(tmp_path, old, new):
    page = tmp_path / "page.md"
    page.write_text(MARK.replace(old, new))
    (tmp_path / "rows.jsonl").write_text(ROWS)
    with pytest.raises(ValueError, match="has no such rows, or a column without values"):
        with_tables(page)
