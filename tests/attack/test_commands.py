"""Commands that would lose a file, and commands whose mistakes can be found before the work."""

import os
import shutil
import stat

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.options import encoder as encoder_options
from tests.attack.damage import on_a_full_disk
from tests.attack.test_jobs import contents
from tests.conftest import TINY

CODES = ("de", "en", "zh")


@pytest.fixture
def folder(tmp_path, rng):
    """Vectors and text in three languages, a transform and moments."""
    for code in CODES:
        np.save(tmp_path / f"{code}.npy", rng.standard_normal((30, 32)).astype(np.float32))
        (tmp_path / f"{code}.txt").write_text("abc\ndef g\nh\n")
    data = map(str, tmp_path.glob("*.npy"))
    assert main(["fit", "lsar", str(tmp_path / "t"), "--texts", *data, "--save", str(tmp_path / "m")]) == 0
    (tmp_path / "link").hardlink_to(tmp_path / "de.npy")
    (tmp_path / "same.npy").hardlink_to(tmp_path / "de.npy")
    (tmp_path / "soft").symlink_to(tmp_path / "de.npy")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


READ = "is also an input or another output; choose another file"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("fit lsar de.npy --texts de=de.npy en=en.npy --overwrite", f"de.npy {READ}"),
        ("fit lsar link --texts de=de.npy en=en.npy --overwrite", f"link {READ}"),
        ("fit lsar m --moments m --overwrite", f"m {READ}"),
        ("fit lsar new --moments m --save m --overwrite", f"m {READ}"),
        ("fit lsar t --moments m --save t --overwrite", f"t {READ}"),
        ("fit lsar t --moments m", "t already exists; choose another file, or replace it with --overwrite"),
        ("apply t de.npy de.npy --overwrite", f"de.npy {READ}"),
        ("apply t de.npy pipe --overwrite", "pipe is not a file, and will not be replaced by one"),
        ("apply t de.npy loop", "loop already exists"),
        ("apply t de.npy new --layer 0", "it must be left out: there is no text to encode"),
        ("apply t de.npy new --final-norm", "it must be left out: there is no text to encode"),
        ("apply t de.npy new --layer 7", "it must be left out: there is no text to encode"),
        ("apply t de.txt {copy}/new --encoder {copy}", "new is in copy, which is read; choose another place"),
        ("apply t de.txt linked/new --encoder {copy}", "linked/new is in copy, which is read"),
        ("apply t de.txt part/config.json --encoder {copy} --overwrite", f"part/config.json {READ}"),
        ("fit lsar /dev/null --moments m --overwrite", "/dev/null is not a file, and will not be replaced by one"),
        ("fit lsar new --moments m m", "--moments has m twice; omit one"),
        ("fit lsar new --texts de=de.npy en=en.npy de=same.npy", "--texts de has same.npy twice; omit one"),
        ("fit lsar new --moments m --limit 5", "--limit is given, but --texts, which it limits, is not"),
        ("apply t de.npy new --language klingon", "'klingon' is not a language code"),
    ],
)
def test_no_file_is_lost(folder, monkeypatch, refused, command, message):
    monkeypatch.chdir(folder)
    shutil.copytree(TINY, folder / "copy")
    (folder / "linked").symlink_to("copy")
    (folder / "part").mkdir()
    (folder / "part" / "config.json").write_text("{}")
    (folder / "copy" / "1_Pooling").symlink_to("../part")
    before = contents(folder)
    assert message in refused(main, command.format(tiny=TINY, copy="copy").split())
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("apply t de.txt out", "de.txt is read as text, which needs an encoder; give --encoder bundled"),
        ("apply t objects.npy out", "which numpy.save writes: Array can't be memory-mapped: Python objects"),
        ("apply t de.npy nowhere/out", "there is no folder nowhere"),
        ("fit lsar new --texts de=de.txt en=en.txt --encoder {tiny} --rank 2", "rank is 2; it must be a whole number"),
        ("fit lsar new --texts de=de.txt --encoder {tiny}", "1 language is given (de); at least 2 are needed"),
        ("fit center new --texts de=de.txt en=empty.txt --encoder {tiny}", "empty.txt is empty"),
        ("fit cbie new --texts de=de.txt --encoder {tiny} --clusters 0", "clusters is 0; it must be a whole number"),
    ],
)
def test_what_is_found_before_the_work(folder, monkeypatch, refused, command, message):
    monkeypatch.chdir(folder)
    (folder / "empty.txt").touch()
    np.save(folder / "objects.npy", np.array([[None]]), allow_pickle=True)
    monkeypatch.setattr("lsar_jax.encoders.pipeline.run_batch", lambda *_: pytest.fail("text was encoded first"))
    error = refused(main, command.format(tiny=TINY).split())
    assert message in error
    assert "unsafe" not in error
    assert not (folder / "out").exists()


@pytest.mark.parametrize("change", ["abc\n", "abc\n" * 5])
def test_text_that_changes_while_it_is_read(folder, monkeypatch, refused, change):
    monkeypatch.chdir(folder)
    load = encoder_options.load_encoder

    def change_first(*args, **options):
        (folder / "de.txt").write_text(change)
        return load(*args, **options)

    monkeypatch.setattr(encoder_options, "load_encoder", change_first)
    assert "de.txt had 3 rows, and then " in refused(main, ["apply", "t", "de.txt", "out.npy", "--encoder", str(TINY)])
    assert not (folder / "out.npy").exists()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(folder, monkeypatch, refused):
    monkeypatch.chdir(folder)
    (folder / "closed").mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    error = refused(main, ["fit", "lsar", "closed/t", "--moments", "m"])
    assert "files cannot be written in closed; choose another folder" in error


def test_a_full_disk_is_one_line(folder, refused):
    np.save(folder / "large.npy", np.ones((3000, 32), np.float32))
    with on_a_full_disk(folder / "disk", 16_384) as disk:
        (disk / "filler").write_bytes(b"x" * 16_384)
        for command in (
            ["fit", "center", disk / "t", "--moments", folder / "m"],
            ["apply", folder / "t", folder / "large.npy", disk / "x.npy"],
        ):
            error = refused(main, command)
            assert "was not written: " in error
            assert "No space left on device" in error
        assert [path.name for path in disk.iterdir()] == ["filler"]


@pytest.mark.parametrize("shape", ["(99999999999999999999, 32)", "(20, 32)", "(30, 32), " + " " * 20_000])
def test_headers_that_do_not_fit(folder, shape, monkeypatch, refused):
    monkeypatch.chdir(folder)
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    rows = np.load("de.npy").tobytes()
    (folder / "de.npy").write_bytes(b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header + rows)
    error = refused(main, ["apply", "t", "de.npy", "x.npy"])
    assert "de.npy is " in error
    assert "pickle" not in error


def test_unknown_languages_are_named_once_for_all_blocks(folder, monkeypatch, caplog):
    monkeypatch.chdir(folder)
    rng = np.random.default_rng(0)
    x = {code: (rng.standard_normal((60, 32)) + 4 * i).astype(np.float32) for i, code in enumerate(CODES)}
    center = lj.transforms.fit_center(x)
    center.with_identifier(lj.transforms.fit_identifier(x)).save("auto")
    known = x["de"][lj.transforms.fit_identifier(x).novelty(x["de"]) < 3][:40]
    large = np.tile(known, (600, 1))
    strange = [20_000, 20_001, 23_000]
    large[strange] = x["de"][:3] - 40
    np.save("large.npy", large)
    assert main(["apply", "auto", "large.npy", "x.npy", "--language", "auto"]) == 0
    [warning] = [record.getMessage() for record in caplog.records]
    assert warning.startswith("3 of 24000 vectors in large.npy are in none of the languages")
    assert "for example row 20000" in warning


@pytest.mark.parametrize("name", ["out\udcff.st", "a." + "b" * 240, "ü" * 120])
def test_names_of_files_of_any_kind(folder, name, monkeypatch):
    monkeypatch.chdir(folder)
    assert main(["fit", "lsar", name, "--moments", "m"]) == 0
    assert lj.Transform.load(name).name == lj.Transform.load("t").name


@pytest.mark.parametrize(
    "command", ["apply t {long} x", "fit lsar x --moments m --save {long}", "apply t de.txt x --encoder {long}"]
)
def test_a_long_path_is_one_short_line(folder, command, monkeypatch, refused):
    monkeypatch.chdir(folder)
    error = refused(main, command.format(long="a" * 5000).split())
    assert len(error) < 500
