"""The output of commands: where it is closed, full, not read to its end, or cannot encode a name."""

import io
import os
import sys
from pathlib import Path
from unittest.mock import Mock

import jax
import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.console import output as console


@pytest.fixture
def command(tmp_path, rng):
    """A command that prints the name of a file which ASCII, and UTF-8, cannot encode."""
    np.save(tmp_path / "a.npy", rng.standard_normal((30, 8)).astype(np.float32))
    name = tmp_path / "ü\udcff"
    return ["fit", "center", str(name), "--texts", f"de={tmp_path}/a.npy", f"en={tmp_path}/a.npy"]


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_output_takes_any_name(command, monkeypatch, encoding):
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", output)
    assert main(command) == 0
    assert output.buffer.getvalue().endswith(b"\\udcff\n")


def test_output_that_is_closed(command, monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(command) == 0
    assert main(["--help"]) == 0
    for stream in (sys.stdout, sys.stderr):
        stream.close()


@pytest.mark.parametrize("buffering", [0, -1])
@pytest.mark.parametrize("words", [["--help"], ["--version"], ["encode", "--help"], None])
def test_output_that_is_not_read_to_its_end(command, monkeypatch, capsys, words, buffering):
    readable, writable = os.pipe()
    os.close(readable)
    raw = os.fdopen(writable, "wb", buffering)
    with io.TextIOWrapper(raw, write_through=buffering == 0) as output:
        monkeypatch.setattr(sys, "stdout", output)
        try:
            status = main(words or command)
        except SystemExit as ended:
            status = ended.code
    assert status == 141
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_output_on_a_full_disk(monkeypatch, capsys):
    with open("/dev/full", "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert main(["--help"]) == 1
    assert capsys.readouterr().err == "error: the output was not written: [Errno 28] No space left on device\n"


def test_names_are_not_markup():
    with console.console.capture() as captured:
        console.console.print("wrote c[/d] and [red]x[/red]: :smile:")
        console.print_table("of [bold]", ["[red]"], [["c[/d] :smile:"]])
    for text in ("c[/d] and [red]x[/red]: :smile:", "of [bold]", " [red] ", " c[/d] :smile: "):
        assert text in captured.get()


def test_programs_of_a_user_without_a_home_folder(command, monkeypatch, capsys):
    pwd = pytest.importorskip("pwd")
    monkeypatch.setattr(pwd, "getpwuid", Mock(side_effect=KeyError("uid not found")))
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    folder = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        with pytest.raises(FileNotFoundError, match="there is no home folder; set HOME"):
            lj.cache_programs()
        with pytest.raises(FileNotFoundError, match="there is no prepared dataset"):
            lj.corpora.prepared("absent/de")
        assert main(command) == 0
    finally:
        jax.config.update("jax_compilation_cache_dir", folder)
    assert "warning: compiled programs are not kept: there is no home folder" in capsys.readouterr().err
    assert Path(command[2]).is_file()
