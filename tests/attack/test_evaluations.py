"""Evaluations and reports: what is replaced, what is found before the encoding, and what is said of languages."""

import os
import shutil

import pytest

from eval.__main__ import main
from lsar_jax.measures.results import read_results
from tests.attack.damage import on_a_full_disk
from tests.conftest import TINY
from tests.fake_encoder import FakeEncoder
from tests.train.runs import write_bitext

pytestmark = pytest.mark.usefixtures("fake")

ENCODER = ["--encoder", str(TINY), "--max-length", "16"]
THREE = ["udhr", *ENCODER, "--layers", "1", "--languages", "en", "de", "fr"]
UDHR = [*THREE, "--ranks", "2"]


@pytest.fixture(scope="module")
def done(tmp_path_factory, fake):
    """The folder of finished results."""
    out = tmp_path_factory.mktemp("done")
    assert main([*UDHR, "--out", str(out)]) == 0
    return out


def test_results_of_other_options_are_kept(done, refused):
    before = (done / "results.jsonl").read_bytes()
    error = refused(main, [*UDHR, "--components", "2", "--out", str(done)])
    assert "was made with other options: components was '1' and is now '2'" in error
    assert (done / "results.jsonl").read_bytes() == before
    assert main([*UDHR, "--out", str(done)]) == 0


@pytest.mark.parametrize("name", ["methods.png", "languages.pdf", "queries.npz", "results.jsonl"])
def test_files_of_others_are_kept(name, tmp_path, refused, monkeypatch):
    monkeypatch.setattr(FakeEncoder, "encode", lambda *_, **__: pytest.fail("text was encoded first"))
    (tmp_path / name).write_text("mine")
    assert f"{name} exists, and its options are not known" in refused(main, [*UDHR, "--out", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
@pytest.mark.parametrize("name", ["results.jsonl", "run.json", "methods.png"])
def test_what_cannot_be_a_result(name, make, tmp_path, refused, monkeypatch):
    monkeypatch.setattr(FakeEncoder, "encode", lambda *_, **__: pytest.fail("text was encoded first"))
    make(tmp_path / name)
    assert f"{name} is " in refused(main, [*UDHR, "--out", str(tmp_path), "--overwrite"])


def test_results_come_before_figures(tmp_path, refused):
    with on_a_full_disk(tmp_path / "disk", 64 << 10) as disk:
        error = refused(main, [*UDHR, "--out", str(disk / "out")])
        assert "was not written: No space left on device" in error
        assert read_results(disk / "out" / "results.jsonl")
        assert not [path for path in (disk / "out").iterdir() if ".partial" in path.name]


def test_pages_of_others_are_kept(done, tmp_path, refused):
    folder = shutil.copytree(done, tmp_path / "results")
    assert main(["report", str(folder)]) == 0
    assert main(["report", str(folder)]) == 0
    (folder / "report.md").write_text("mine")
    assert "report.md already exists" in refused(main, ["report", str(folder)])
    assert (folder / "report.md").read_text() == "mine"
    assert main(["report", str(folder), "--overwrite"]) == 0


def test_makers_of_data_replace_nothing(tmp_path, refused, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_bitext(tmp_path / "bitext")
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "de-en.training.gold").write_text("mine")
    made = refused(main, ["make-bucc", "--languages", "de", "--data", "bitext", "--to", "to"])
    assert "de-en.training.gold already exists" in made
    assert [path.read_text() for path in (tmp_path / "to").iterdir()] == ["mine"]
