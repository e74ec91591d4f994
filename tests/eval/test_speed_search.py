"""The benchmark of search: both sides find the same neighbours."""

from eval.__main__ import main
from tests.optional import need

need("faiss")


def test_both_find_the_same(capsys):
    options = ["--queries", "50", "--candidates", "300", "--dim", "16", "--k", "1", "3", "--repeats", "1"]
    assert main(["searchbench", *options]) == 0
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines() if "k = " in line and line.startswith("│")]
    assert [row[3] for row in rows] == ["1", "3"]
    assert all(row[13] == "100.0" for row in rows), rows
    assert "mining with k = 4" in printed
