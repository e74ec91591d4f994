"""Rows of what programs take, files of them, and the command that compares them."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from eval.__main__ import main
from eval.aot.arguments import Sizes
from eval.aot.page import programs_page
from eval.aot.programs import programs
from eval.aot.row import Row, read_rows, worse
from eval.aot.targets import TARGETS
from lsar_jax.mesh import data_mesh
from tests.eval.test_aot import HERE

ROW = Row("encode", "v5e", 10, 2.0, 3.0, 4.0, {"all-reduce": 2}, 0.5, 10.0, 4.0, 0, "published", "jax 1")


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, []),
        ({"traffic": 3.29, "memory": 16.0, "collectives": {"all-reduce": 1}}, []),
        ({"traffic": 3.31}, ["encode on v5e moves 3.31 GB; it moved 3 GB with jax 1"]),
        ({"memory": 17.5}, ["encode on v5e needs 17.5 GB of memory; the device has 17.2 GB"]),
        ({"collectives": {"all-reduce": 3}}, ["encode on v5e has 3 all-reduce; it had 2 with jax 1"]),
        ({"open_loops": 1}, ["encode on v5e has 1 loops of unknown length; it had 0 with jax 1"]),
        ({"collectives": {"all-gather": 1}}, ["encode on v5e has 1 all-gather; it had 0 with jax 1"]),
    ],
)
def test_what_is_worse_than_before(changes, wrong):
    assert list(worse(replace(ROW, **changes), ROW, TARGETS["v5e"])) == wrong


def test_rows_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(ROW.line() + "\n" + replace(ROW, target="v6e", traffic=1.23456).line() + "\n")
    assert read_rows(path) == {("encode", "v5e"): ROW, ("encode", "v6e"): replace(ROW, target="v6e", traffic=1.235)}


@pytest.mark.parametrize("line", ["{", "{}", "[]"])
def test_a_damaged_file(tmp_path, capsys, line):
    path = tmp_path / "rows.jsonl"
    path.write_text(ROW.line() + "\n" + line + "\n")
    assert main(["aot", "--check", str(path)]) == 1
    assert f"{path}:2: not a row of python -m eval aot" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--programs", "fit/lsar", "encode/huge"], "--programs has encode/huge; choose from encode/base/bfloat16/32"),
        (["--programs", "fit/lsar", "--targets", "v5e-2x2"], "--programs has fit/lsar; choose from encode/base/bf"),
        (["--check", "no-such-file"], "no-such-file"),
    ],
)
def test_clear_errors(capsys, more, message):
    assert main(["aot", *more]) == 1
    assert message in capsys.readouterr().err


@pytest.fixture
def here(monkeypatch):
    """Makes this machine a target, as if its compiler were that of a device."""
    monkeypatch.setitem(TARGETS, "v5e", replace(HERE, devices=1))
    for name, stand_in in (
        ("check_installed", lambda name: None), ("prepare", lambda: None),
        ("mesh_of", lambda target: data_mesh(jax.devices()[: target.devices])),
    ):  # fmt: skip
        monkeypatch.setattr(f"eval.aot.command.{name}", stand_in)


def test_a_table_is_written_and_compared_with(here, tmp_path, capsys):
    options = ["aot", "--small", "--targets", "v5e"]
    path = tmp_path / "rows.jsonl"
    assert main([*options, "--programs", "fit/outliers", "apply/center", "--out", str(path)]) == 0
    rows = read_rows(path)
    assert {name for name, _ in rows} == {"fit/outliers", "apply/center"}
    written = path.stat().st_mtime_ns
    assert main([*options, "--programs", "fit/outliers", "--out", str(path)]) == 0  # is not compiled again
    assert path.stat().st_mtime_ns == written
    assert main([*options, "--check", str(path)]) == 0
    assert "compared 2 programs" in capsys.readouterr().out
    worse_row = replace(rows["apply/center", "v5e"], traffic=rows["apply/center", "v5e"].traffic / 2)
    gone = replace(worse_row, program="apply/gone")
    path.write_text("".join(row.line() + "\n" for row in (rows["fit/outliers", "v5e"], worse_row, gone)))
    assert main([*options, "--check", str(path)]) == 1
    captured = capsys.readouterr()
    assert "apply/center on v5e moves" in captured.out
    assert "apply/gone on v5e is in" in captured.out
    assert "2 programs failed" in captured.err


def test_a_program_that_does_not_compile_fails_the_command(here, capsys, monkeypatch):
    """The others are still compiled; this one calls what no compiler has."""
    whole = jax.jit(jnp.sin)
    unknown = jax.jit(lambda x: jax.ffi.ffi_call("no_such_call", jax.ShapeDtypeStruct(x.shape, x.dtype))(x))
    found = {"broken": lambda mesh: unknown.trace(jnp.ones(3)), "whole": lambda mesh: whole.trace(jnp.ones(3))}
    monkeypatch.setattr("eval.aot.command.programs", lambda sizes, devices: found)
    assert main(["aot", "--small", "--targets", "v5e"]) == 1
    captured = capsys.readouterr()
    assert "v5e: whole, compiled in" in captured.out
    assert "broken on v5e does not compile" in captured.out
    assert "1 programs failed" in captured.err


def test_tables_that_do_not_fit(here, tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    path.write_text(replace(ROW, target="v6e", sizes="small").line() + "\n")
    for more, message in (
        (["--check", str(path)], "has programs of small sizes; these are published"),
        (["--small", "--check", str(path)], "has no programs on v5e; leave it out of --targets"),
        (["--small", "--check", str(path), "--out", str(path)], "give one of them"),
    ):
        assert main(["aot", "--targets", "v5e", *more]) == 1
        assert message in capsys.readouterr().err


def test_a_compiler_that_is_not_installed(capsys, monkeypatch):
    monkeypatch.setattr("eval.aot.targets._installed", lambda package: False)
    assert main(["aot", "--targets", "v5e"]) == 1
    assert "the compiler for v5e is not installed: pip install -e '.[aot]'" in capsys.readouterr().err


def test_the_page_is_what_the_rows_say():
    page = Path("docs/reference/programs.md").read_text(encoding="utf-8")
    rows = read_rows(Path("eval/aot/published.jsonl"))
    assert programs_page(rows.values()) == page, "write it anew: python -m eval aot --page docs/reference/programs.md"
    known = {(name, target) for target, one in TARGETS.items() for name in programs(Sizes(), one.devices)}
    assert set(rows) <= known
