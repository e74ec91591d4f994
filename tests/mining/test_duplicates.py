"""Groups of duplicates: planted ones are found, whatever the languages, in folders and text."""

import json

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from tests.embeddings.made_folder import made_folder
from tests.reference import unit


@pytest.fixture
def planted(rng):
    """Vectors of 40 rows alone and 12 groups of 2 to 4, in a random order, and the group of each; -1 for none."""
    group = np.concatenate([np.full(40, -1), np.repeat(np.arange(12), 2 + np.arange(12) % 3)])
    centre = rng.standard_normal((12, 24))
    x = np.where(group[:, None] < 0, rng.standard_normal((len(group), 24)), centre[group])
    order = rng.permutation(len(group))
    return (x + 0.1 * rng.standard_normal(x.shape)).astype(np.float32)[order], group[order]


@pytest.mark.parametrize("scaled", [False, True])
def test_planted_groups_are_found(scaled, planted, rng):
    x, group = planted
    bank = rng.standard_normal((50, 24)).astype(np.float32) if scaled else None
    found = lj.mining.duplicate_groups(x, 0.8, bank=bank)
    same = found.number[:, None] == found.number
    expected = ((group[:, None] == group) & (group >= 0)) | np.eye(len(x), dtype=bool)
    np.testing.assert_array_equal(same, expected)
    np.testing.assert_array_equal(np.isnan(found.score), group < 0)
    cosine = unit(x.astype(float)) @ unit(x.astype(float)).T
    np.fill_diagonal(cosine, -np.inf)
    if bank is None:
        np.testing.assert_allclose(found.score[group >= 0], cosine.max(axis=1)[group >= 0], atol=1e-6)
        return
    # CSLS of each row with the best of its group, in which the row itself is not one of its neighbours.
    scale = np.sort(unit(x.astype(float)) @ unit(bank.astype(float)).T, axis=1)[:, -10:].mean(axis=1)
    first = np.argsort(scale - 2 * cosine, axis=1)[:, :10]
    csls = 2 * cosine - np.take_along_axis(cosine, first, axis=1).mean(axis=1)[:, None] - scale
    best = np.where(expected, csls, -np.inf).max(axis=1)
    np.testing.assert_allclose(found.score[group >= 0], best[group >= 0], atol=1e-5)


def test_neighbours_on_one_side_alone_are_not_joined():
    """A hub is near to all, but with one neighbour each, it is joined to one."""
    x = np.eye(5, dtype=np.float32) + np.array([1, 0.1, 0.1, 0.1, 0.1], np.float32)[None] * 3
    assert len(set(lj.mining.duplicate_groups(x, 0.5, k=1).number)) == 4


def test_the_command_writes_groups_with_copies(planted, tmp_path, refused, capsys):
    x, group = planted
    texts = [f"text\t{row}" for row in range(len(x))]
    alone = int(np.argmin(group))
    folder = made_folder(tmp_path / "in", x[[*range(len(x)), alone, 0, 0]], [*texts, texts[alone], " ", texts[0]])
    command = ["duplicates", str(folder.folder), "--threshold", "0.8"]
    out = tmp_path / "groups.jsonl"
    assert main([*command, str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    found = {frozenset(map(int, row["ids"])): row for row in rows}
    expected = {frozenset(np.flatnonzero(group == number).tolist()) for number in range(12)}
    copies = {alone: {len(x)}, 0: {len(x) + 2}}
    whole = {frozenset(part.union(*(copies.get(row, set()) for row in part))) for part in (*expected, {alone})}
    whole |= {frozenset({0, len(x) + 2})} if group[0] < 0 and alone else set()
    assert set(found) == whole
    assert [row["group"] for row in rows] == list(range(len(rows)))
    assert found[next(part for part in whole if alone in part)]["scores"] == len(copies[alone] | {alone}) * [None]
    assert f"wrote {len(whole)} groups of {sum(map(len, whole))} sentences" in capsys.readouterr().out
    assert main([*command, str(out.with_suffix(".tsv"))]) == 0
    lines = [line.split("\t") for line in out.with_suffix(".tsv").read_text().splitlines()]
    assert [line[3] for line in lines] == [text.replace("\t", " ") for row in rows for text in row["texts"]]
    assert not (tmp_path / "groups.jsonl.job").exists()
    (tmp_path / "text.txt").write_text("Text\n")
    command = ["duplicates", str(tmp_path / "text.txt"), str(tmp_path / "no.tsv"), "--threshold", "1"]
    assert "needs an encoder" in refused(main, command)
    assert "threshold is nan; it must be a number" in refused(main, [*command[:-1], "nan"])
    assert "--error 0.01 needs a calibration" in refused(main, [*command, "--error", "0.01"])
