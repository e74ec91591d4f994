"""Ways to damage files and disks."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

__all__ = ["can_mount", "damage", "flip_bit", "full_disk", "on_a_full_disk", "truncate"]


def flip_bit(path: Path, rng: np.random.Generator) -> None:
    """Flips one bit of a file."""
    content = bytearray(path.read_bytes())
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    path.write_bytes(bytes(content))


def truncate(path: Path, rng: np.random.Generator) -> None:
    """Cuts a file at a random place."""
    content = path.read_bytes()
    path.write_bytes(content[: rng.integers(len(content))])


def damage(path: Path, rng: np.random.Generator) -> bool:
    """Damages a file in one of several ways; returns whether its bytes have changed."""
    whole = path.read_bytes()
    kind = rng.integers(5)
    if kind < 3:
        flip_bit(path, rng)
    elif kind == 3:
        truncate(path, rng)
    else:
        start = int(rng.integers(len(whole)))
        path.write_bytes(whole[:start] + rng.bytes(int(rng.integers(1, 64))) + whole[start:])
    return path.read_bytes() != whole


@contextmanager
def full_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mounts a disk of ``size`` bytes in memory; raises OSError where that is not allowed."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.name != "posix" or os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        raise PermissionError("disks can be mounted only by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def can_mount(folder: Path) -> bool:
    """Returns whether disks can be mounted here."""
    try:
        with full_disk(folder, 4096):
            return True
    except PermissionError:
        return False


@contextmanager
def on_a_full_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mounts a disk as ``full_disk`` does; skips the test where that is not allowed."""
    if not can_mount(folder.with_name(f"{folder.name}-tried")):
        pytest.skip("disks can be mounted only by root")
    with full_disk(folder, size) as disk:
        yield disk
