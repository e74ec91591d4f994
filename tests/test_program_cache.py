"""Compiled programs on disk: read by the next process, and only from a folder that nobody else can write."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import lsar_jax as lj
from lsar_jax.program_cache import _empty_if_large

# Compiles for long enough to be kept.
PROGRAM = """
import jax, jax.numpy as jnp
import lsar_jax as lj
def layers(x):
    for number in range(40):
        x = jnp.tanh(x @ jnp.cos(x + number)) + x[::-1].cumsum(axis=number % 2)
    return x
folder = lj.cache_programs()
jax.jit(layers)(jnp.ones((20, 20))).block_until_ready()
print(folder)
"""


def run(home, code=PROGRAM, **more):
    own = {"JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"}
    environment = {name: value for name, value in os.environ.items() if name not in own}
    environment |= {"XDG_CACHE_HOME": str(home), **more}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_the_next_process_reads_them(tmp_path):
    # As where each user has a group of their own.
    first = run(tmp_path, f"import os; os.umask(0o002)\n{PROGRAM}", JAX_LOG_COMPILES="1")
    assert first.returncode == 0, first.stderr
    assert "cache hit for 'jit_layers'" not in first.stderr
    folder = first.stdout.strip()
    assert folder.startswith(str(tmp_path / "lsar_jax" / "programs"))
    assert any(name.startswith("jit_layers") for name in os.listdir(folder))
    assert {stat.S_IMODE(place.stat().st_mode) for place in (Path(folder), *tmp_path.glob("lsar_jax/**"))} == {0o700}
    second = run(tmp_path, JAX_LOG_COMPILES="1")
    assert second.stdout.strip() == folder
    assert "cache hit for 'jit_layers'" in second.stderr


def test_a_folder_that_jax_has_is_kept(tmp_path):
    before = jax.config.values["jax_compilation_cache_dir"]
    assert before
    assert str(lj.cache_programs()) == before == jax.config.values["jax_compilation_cache_dir"]
    assert run(tmp_path, JAX_COMPILATION_CACHE_DIR=str(tmp_path / "own")).stdout.split()[0] == str(tmp_path / "own")


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_folder_that_others_can_write_is_refused(tmp_path, mode):
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs").chmod(mode)
    before = jax.config.values["jax_compilation_cache_dir"]
    with pytest.raises(ValueError, match="programs would be run, and others can write it; delete it"):
        lj.cache_programs(tmp_path / "programs")
    assert jax.config.values["jax_compilation_cache_dir"] == before


def test_a_link_to_a_folder(tmp_path, monkeypatch):
    """It may be on another disk, but only its owner may lead it there, and nothing there is deleted."""
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "disk" / "link").symlink_to("text")
    (tmp_path / "programs").symlink_to(tmp_path / "disk")
    monkeypatch.setattr("jax.config.update", lambda *_: None)
    used = lj.cache_programs(tmp_path / "programs")
    assert used.parent == tmp_path / "programs"
    used.rmdir()
    used.symlink_to(tmp_path / "disk")
    with pytest.raises(ValueError, match="is a link, and files where it leads would be deleted; replace it"):
        lj.cache_programs(tmp_path / "programs")
    assert (tmp_path / "disk" / "link").is_symlink()
    if os.geteuid() == 0:
        os.lchown(tmp_path / "programs", 65534, 65534)
        with pytest.raises(ValueError, match="programs would be run, and it belongs to another user"):
            lj.cache_programs(tmp_path / "programs")


def test_a_large_folder_is_emptied(tmp_path, monkeypatch):
    """With the folders in it, such as that in which XLA keeps the choices of its autotuner, but not beyond a link."""
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "programs"
    (folder / "tuned").mkdir(parents=True)
    elsewhere.write_bytes(b"y")
    (folder / "link").symlink_to(elsewhere)
    for name in ("tuned/choice", "program"):
        (folder / name).write_bytes(bytes(1000))
    _empty_if_large(folder)
    assert sorted(os.listdir(folder)) == ["link", "program", "tuned"]
    monkeypatch.setattr("lsar_jax.program_cache._MOST_BYTES", 1999)
    _empty_if_large(folder)
    assert (os.listdir(folder), os.listdir(folder / "tuned")) == (["tuned"], [])
    assert elsewhere.read_bytes() == b"y"
