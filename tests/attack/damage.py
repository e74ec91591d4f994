"""Ways to damage files and disks."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

__all__ = ["flip_bit", "on_a_full_disk", "truncate"]


def flip_bit(path: Path, rng: np.random.Generator) -> None:
    """Flips one bit of a file."""
    content = bytearray(path.read_bytes())
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    path.write_bytes(bytes(content))


def truncate(path: Path, rng: np.random.Generator) -> None:
    """Cuts a file at a random place."""
    content = path.read_bytes()
    path.write_bytes(content[: rng.integers(len(content))])


@contextmanager
def on_a_full_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mounts a disk of ``size`` bytes in memory; skips the test where that is not allowed."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.name != "posix" or os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("disks can be mounted only by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
