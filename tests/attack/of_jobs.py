"""Attacks that stop jobs before any change of a file, and start them again."""

import contextlib
import os
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from tests.attack.outcome import TEXT, Killed, Refused, command, drawn, expect, texts, vectors
from tests.embeddings.made_folder import made_folder

left = None


def before_change(event, arguments):
    """Raises Killed before the n-th change of a file with a relative path, and before all later ones."""
    global left
    if left is None or event not in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"):
        return
    path = os.fspath(arguments[0]) if isinstance(arguments[0], str | os.PathLike) else "/"
    # A dead process has no lock.
    reads = event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if not reads and not os.path.isabs(path) and not path.endswith("lock"):
        left -= 1
        if left < 0:
            raise Killed


ENCODE = ("encode", "in.txt", "out", *TEXT, "--shard-rows", "4")
MINE = ("mine", "a", "b", "out", "--block", "1024", "--k", "2")
JOBS = (
    (ENCODE, ENCODE), (ENCODE, (*ENCODE, "--format", "parquet")), ((*ENCODE, "--store", "float16"), ENCODE),
    (MINE, MINE), (MINE, (*MINE, "--overwrite")), (MINE, (*MINE, "--k", "3", "--overwrite")),
    (MINE, (*MINE, "--margin", "distance", "--overwrite")),
)  # fmt: skip


def in_new_folder(job, stops=()):
    """Runs a job in a folder of inputs, after one that was stopped; returns its files and the number of changes."""
    global left
    with tempfile.TemporaryDirectory(prefix="attack-") as name, contextlib.chdir(name):
        rng = np.random.default_rng(0)
        Path("in.txt").write_text("".join(f"{line}\n" for line in texts(rng, 14)))
        for name in "ab" if "mine" in job[0] else "":
            made_folder(Path(name), vectors(rng, 1030)["de"], texts(rng, 1030), rows=700)
        try:
            for stop in stops:
                left = stop
                with contextlib.suppress(Killed, Refused):
                    command(*job[0])
            left = 1 << 30
            command(*job[-1])
            changes = (1 << 30) - left
        finally:
            left = None
        out = Path("out")
        return {file.name: file.read_bytes() for file in (out.iterdir() if out.is_dir() else [out])}, changes


whole_job = cache(in_new_folder)


def jobs(folder, rng, note):
    first, second = drawn(rng, JOBS)
    changes = whole_job((first,))[1]
    stops = [int(rng.integers(changes)) for _ in range(rng.integers(1, 4))]
    note(f"{first[0]} stopped before changes {stops} of {changes}, then with {second[len(first) :]}")
    try:
        found = in_new_folder((first, second), stops)[0]
    except Refused as error:
        # One that is finished, or was begun with other options.
        known = ["already exists"] + ["begun with other options"] * (first is not second)
        expect(any(part in str(error) for part in known), f"does not go on: {error}")
        raise
    wrong = [name for name, content in whole_job((second,))[0].items() if found.get(name) != content]
    expect(not wrong and found.keys() == whole_job((second,))[0].keys(), f"ends in {sorted(found)}, other are {wrong}")


sys.addaudithook(before_change)
