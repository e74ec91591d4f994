"""Commands: what is read is never overwritten, and a full disk leaves the old file."""

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

import lsar_jax as lj
from eval.run_record import recorded
from lsar_jax.__main__ import main
from lsar_jax.files import write_text
from tests.attack.areas.outcome import CODES, DIM, Broke, Random, Refused, vectors
from tests.attack.damage import full_disk

__all__ = ["evaluations", "full_disks", "names", "overwriting", "vectors_files"]


@dataclass(frozen=True)
class _Measure:
    """Stands for an evaluation, which writes its results to ``out``."""

    name: ClassVar[str] = "measure"

    out: Path
    option: int
    overwrite: bool = False


def evaluations(folder: Path, rng: Random) -> None:
    held: int | None = None
    for _ in range(6):
        command = _Measure(folder / "out", int(rng.integers(2)), bool(rng.random() < 0.3))
        failing = rng.random() < 0.3
        try:
            with recorded(command):
                write_text(command.out / "results.jsonl", f"{command.option} {rng.random()}\n")
                if failing:
                    raise ZeroDivisionError
        except FileExistsError as error:
            if held is None or held == command.option or command.overwrite:
                raise Broke(f"results of the same options were not replaced: {error}") from error
            continue
        except ZeroDivisionError:
            pass
        if held is not None and held != command.option and not command.overwrite:
            raise Broke("results of other options were replaced")
        held = command.option


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def _files(folder: Path, rng: Random) -> None:
    for code, rows in vectors(rng).items():
        np.save(folder / f"{code}.npy", rows)
    data = [f"{code}={folder / code}.npy" for code in CODES]
    if _run(["fit", "lsar", str(folder / "t"), "--data", *data, "--save", str(folder / "m")])[0]:
        raise Broke("a fit failed")
    (folder / "hard").hardlink_to(folder / "de.npy")
    (folder / "soft").symlink_to(folder / "de.npy")


def _run(command: list[str]) -> tuple[int, str]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(printed):
        try:
            status = main(command)
        except SystemExit as error:
            status = 2 if error.code else 0
    return status, printed.getvalue()


def overwriting(folder: Path, rng: Random) -> None:
    _files(folder, rng)
    there = ("de.npy", "en.npy", "t", "m", "hard", "soft")

    def some() -> str:
        return str(folder / there[rng.integers(len(there))])

    inputs = [str(folder / name) for name in ("de.npy", "en.npy")]
    commands = [
        ["fit", "lsar", some(), "--data", f"de={inputs[0]}", f"en={inputs[1]}", "--save", some()],
        ["fit", "center", some(), "--moments", str(folder / "m")],
        ["apply", str(folder / "t"), inputs[0], some()],
    ]
    command = commands[rng.integers(3)]
    read = (
        {*inputs, str(folder / "hard"), str(folder / "soft")} if "--data" in command or command[0] == "apply" else set()
    )
    read |= {str(folder / "m")} if "--moments" in command else set()
    read |= {str(folder / "t")} if command[0] == "apply" else set()
    outputs = [command[2] if command[0] == "fit" else command[3], *(command[-1:] if "--save" in command else [])]
    overwrite = rng.random() < 0.5
    before = _contents(folder)
    status, error = _run([*command, *(["--overwrite"] if overwrite else [])])
    lost = {name for name, content in before.items() if _contents(folder).get(name) != content}
    wrong = any(one in read for one in outputs) or len(set(outputs)) < len(outputs)
    # The right-hand side of an apply is the one file that it does not read.
    if command[0] == "apply" and str(folder / "en.npy") in outputs:
        wrong = False
    if lost and (wrong or not overwrite):
        raise Broke(f"{' '.join(command)} lost {', '.join(sorted(lost))}")
    if status and error.count("\n") != 1:
        raise Broke(f"{' '.join(command)}: {error.count(chr(10))} lines of error")
    if status:
        raise Refused


def full_disks(folder: Path, rng: Random) -> None:
    _files(folder, rng)
    np.save(folder / "large.npy", rng.standard_normal((4000, DIM)).astype(np.float32))
    size = int(rng.integers(1, 40)) * 4096
    with full_disk(folder / "disk", size) as disk:
        out = disk / "out"
        commands = [
            ["fit", "lir", str(out), "--data", *(f"{code}={folder / code}.npy" for code in CODES)],
            ["fit", "lsar", str(out), "--moments", str(folder / "m"), "--save", str(disk / "m")],
            ["apply", str(folder / "t"), str(folder / "large.npy"), str(out)],
        ]
        old = rng.bytes(int(rng.integers(1, 4096)))
        out.write_bytes(old)
        status, error = _run([*commands[rng.integers(3)], "--overwrite"])
        left = {path.name for path in disk.iterdir()} - {"out", "m"}
        if left:
            raise Broke(f"{', '.join(left)} was left behind")
        if status and out.read_bytes() != old:
            raise Broke("the old file is gone")
        if status and error.count("\n") != 1:
            raise Broke(f"{error.count(chr(10))} lines of error: {error[:200]}")
        if status:
            raise Refused


def vectors_files(folder: Path, rng: Random) -> None:
    _files(folder, rng)
    expected = lj.Transform.load(folder / "t")(np.load(folder / "de.npy"))
    content = bytearray((folder / "de.npy").read_bytes())
    kind = rng.integers(4)
    if kind < 2:  # the header, which has no digest
        content[rng.integers(128)] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        content = content[: rng.integers(len(content))]
    else:
        content = bytearray(b"a sentence\n" * 40)
    (folder / "de.npy").write_bytes(content)
    status, error = _run(["apply", str(folder / "t"), str(folder / "de.npy"), str(folder / "x.npy")])
    if status and (error.count("\n") != 1 or "pickle" in error):
        raise Broke(f"{error.count(chr(10))} lines of error: {error[:300]}")
    if status:
        raise Refused
    if not np.allclose(np.load(folder / "x.npy"), expected, atol=1e-5):
        raise Broke("other vectors than were written")


def names(folder: Path, rng: Random) -> None:
    """Files and encoders whose names are long, strange or missing."""
    _files(folder, rng)
    characters = ["a", "b", ".", " ", "-", "_", "ü", "語", "\udcff", "\n", "'", "=", "%", "*"]
    name = "".join(rng.choice(characters, int(rng.integers(1, 40)))) * int(rng.choice([1, 1, 10, 200]))
    path = str(folder / name)
    known = ["bundled", "mbert", "xlm", "xlm-r", "infoxlm", "labse", "laser2", "sbert"]
    word = str(rng.choice(known))
    place = int(rng.integers(len(word)))
    typo = word[:place] + word[place + 1 :]
    command = [
        ["fit", "lsar", path, "--moments", str(folder / "m")],
        ["apply", str(folder / "t"), str(folder / "de.npy"), path],
        ["apply", path, str(folder / "de.npy"), str(folder / "x")],
        ["fit", "lsar", str(folder / "x"), "--moments", path],
        ["fit", "lsar", str(folder / "x"), "--data", f"de={path}", f"en={folder / 'en.npy'}"],
        ["convert", path, str(folder / "x")],
        ["convert", typo, str(folder / "x")],
        ["apply", str(folder / "t"), str(folder / "text"), str(folder / "x"), "--encoder", typo],
        ["apply", str(folder / "t"), str(folder / "text"), str(folder / "x"), "--encoder", path],
    ][rng.integers(9)]
    (folder / "text").write_text("a sentence\n")
    before = _contents(folder)
    status, error = _run(command)
    if any(_contents(folder).get(other) != content for other, content in before.items()):
        raise Broke(f"{command} changed another file")
    # A line break in a name is part of it.
    if status == 1 and (error.count("\n") - error.count(name) * name.count("\n") > 1 or len(error) > 3200):
        raise Broke(f"{error.count(chr(10))} lines of error: {error[:300]}")
    if status == 0 and any(path.name.endswith(".partial") or ".partial." in path.name for path in folder.iterdir()):
        raise Broke("a partial file was left behind")
    if status:
        raise Refused
