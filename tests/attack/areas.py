"""One random attack on each part of the library; ``python -m tests.attack`` makes many.

An attack holds if the outcome is right, or an error of one line that a user can act on. It breaks if it raises
``Broke``, or anything but such an error.
"""

import contextlib
import io
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

import lsar_jax as lj
from eval.results import Result, read_results, write_results
from eval.run_record import recorded
from lsar_jax.__main__ import main
from lsar_jax.files import write_text
from tests.attack.damage import flip_bit, full_disk, truncate
from tests.conftest import TINY
from tests.train.runs import kill_at, log_of, write_bitext
from train.checkpoints import Checkpoints
from train.disentangle.__main__ import main as disentangle
from train.embeddings import embed_pairs

__all__ = ["AREAS", "Broke", "Refused", "attack"]

Random = np.random.Generator
Attack = Callable[[Path, Random], None]

SPEC = lj.EncoderSpec("bundled", "sha256:0", 8, "mean", "float32")
CODES = ("de", "en", "zh")
DIM = 16
# What a user may get; anything else is a fault of the library.
REFUSED = (ValueError, OSError, ImportError)


_FOREIGN = ("could not be broadcast", "has no attribute", "unpack", "list index", "Incompatible shapes")


class Broke(Exception):
    """The library did what it must not."""


class Refused(Exception):
    """The attack was refused, as it should be."""


def attack(area: str, folder: Path, rng: Random) -> bool:
    """Makes one attack; returns whether it was refused, rather than survived, and raises Broke if it broke through."""
    try:
        AREAS[area](folder, rng)
    except Refused:
        return True
    except Broke:
        raise
    except BaseException as error:
        raise Broke(f"{type(error).__name__}: {str(error)[:300]}") from error
    return False


def refused(call: Callable[[], Any]) -> Any:
    """Returns the result of a call; raises Refused if it was refused in a few lines, and Broke if in many."""
    try:
        return call()
    except REFUSED as error:
        # Weights that do not fit their config are listed, up to 20. Errors of other libraries do not say what to do.
        if (
            not str(error)
            or len(str(error).splitlines()) > 23
            or any(part in str(error) for part in _FOREIGN)
            or str(error).startswith("'utf-8' codec")
        ):
            raise Broke(f"an error of {len(str(error).splitlines())} lines: {str(error)[:300]}") from error
        raise Refused from error


def vectors(rng: Random, count: int = 30) -> dict[str, np.ndarray]:
    return {code: rng.standard_normal((count, DIM)).astype(np.float32) + i for i, code in enumerate(CODES)}


def damage(path: Path, rng: Random) -> bool:
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


# Files of ours: every change must be noticed.


def _of_ours(path: Path, read: Callable[[], Any], rng: Random) -> None:
    if damage(path, rng):
        refused(read)
        raise Broke(f"{path.name} was read although its bytes had changed")
    read()


def transforms(folder: Path, rng: Random) -> None:
    x = vectors(rng)
    fits = (lj.transforms.fit_lsar, lj.transforms.fit_center, lj.transforms.fit_lir, lj.transforms.fit_whitening)
    transform = fits[rng.integers(len(fits))](x, source=SPEC)
    if transform.languages and rng.random() < 0.5:
        transform = transform.with_identifier(lj.transforms.fit_identifier(x, source=SPEC))
    path = folder / "t"
    transform.save(path)
    _of_ours(path, lambda: lj.Transform.load(path), rng)


def moments(folder: Path, rng: Random) -> None:
    x = {code: lj.Moments.from_embeddings(rows, second_moment=True) for code, rows in vectors(rng).items()}
    path = folder / "m"
    lj.save_moments(path, lj.pool_moments(x) if rng.random() < 0.5 else x, source=SPEC)
    _of_ours(path, lambda: lj.load_moments(path), rng)


def results(folder: Path, rng: Random) -> None:
    from eval.resampling import Queries

    path = folder / "results.jsonl"
    result = Result(
        "tatoeba", ("de",), "e", "1", 8, "mean", "float32", 128, "lsar", {"rank": 3}, "udhr", "en-xx accuracy", 50.0,
        9, None, 0.1,
    ).resampled(Queries(rng.random(9)))  # fmt: skip
    write_results([result, result], path)
    if rng.random() < 0.5:
        # Of a zip file, dates and other bytes that are not the arrays may change.
        if damage(path.with_name("queries.npz"), rng):
            found = refused(lambda: read_results(path))
            if any(one.queries is None or (one.queries.values != result.queries.values).any() for one in found):
                raise Broke("other scores were read")
    else:
        _of_ours(path, lambda: read_results(path), rng)


def training_checkpoints(folder: Path, rng: Random) -> None:
    arrays = {"weights": jnp.asarray(rng.standard_normal(500), jnp.float32)}
    with Checkpoints(folder / "c") as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, {"weights": arrays["weights"] + step}, {"step": step})
    files = [path for path in (folder / "c" / "2").rglob("*") if path.is_file() and path.stat().st_size]
    changed = damage(files[rng.integers(len(files))], rng)
    with Checkpoints(folder / "c") as checkpoints:
        found, position = refused(lambda: checkpoints.restore(arrays))
    if position["step"] != (1 if changed else 2) or not np.array_equal(
        found["weights"], arrays["weights"] + position["step"]
    ):
        raise Broke(f"the checkpoint of step {position['step']} was taken")


# Files of others, which have no digests: a change is refused, or is another revision.


@cache
def _tiny() -> lj.SentenceEncoder:
    return lj.load_encoder(str(TINY))


def _of_others(folder: Path) -> None:
    encoder = refused(lambda: lj.load_encoder(str(folder)))
    if encoder.spec.revision == _tiny().spec.revision:
        raise Broke("a changed checkpoint has the old revision")
    x = refused(lambda: encoder.encode(["abc", "de f", ""]))
    if not np.isfinite(x).all():
        raise Broke("an embedding is not finite")


def checkpoints(folder: Path, rng: Random) -> None:
    new = shutil.copytree(TINY, folder / "e")
    names = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json")
    if damage(new / names[rng.integers(len(names))], rng):
        _of_others(new)


_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 7.5, 1e308, 10**12, float("nan"), "", "x", "../../etc/passwd", "a" * 5000, [], [1], {},
    {"a": 1},
)  # fmt: skip


def configs(folder: Path, rng: Random) -> None:
    new = shutil.copytree(TINY, folder / "e")
    path = new / str(rng.choice(["config.json", "tokenizer.json", "tokenizer_config.json"]))
    settings = json.loads(path.read_text())
    where: Any = settings
    while True:  # a random place in the tree
        keys = list(where) if isinstance(where, dict) else list(range(len(where)))
        key = keys[rng.integers(len(keys))] if keys else "new"
        if (
            isinstance(where, dict | list)
            and isinstance(where[key] if keys else None, dict | list)
            and rng.random() < 0.7
            and where[key]
        ):
            where = where[key]
            continue
        break
    if rng.random() < 0.2 and keys:
        del where[key]
    else:
        where[key] = _VALUES[rng.integers(len(_VALUES))]
    before = path.read_bytes()
    path.write_text(json.dumps(settings))
    if path.read_bytes() != before:
        _of_others(new)


def token_ids(folder: Path, rng: Random) -> None:
    new = shutil.copytree(TINY, folder / "e")
    path = new / "tokenizer.json"
    settings = json.loads(path.read_text())
    row = int(rng.choice([64, 65, 100, 9000, 2**31 - 1]))
    vocabulary = settings["model"]["vocab"]
    if rng.random() < 0.5:
        vocabulary[str(rng.choice(list(vocabulary)))] = row
    else:
        specials = list(settings["post_processor"]["special_tokens"].values())
        specials[rng.integers(len(specials))]["ids"] = [row]
    path.write_text(json.dumps(settings))
    refused(lambda: lj.load_encoder(str(new)))
    raise Broke(f"the id {row} was taken, but the model embeds 0 to 63")


def no_files(folder: Path, rng: Random) -> None:
    new = shutil.copytree(TINY, folder / "e")
    names = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "modules.json", "vocab.txt")
    path = new / names[rng.integers(len(names))]
    path.unlink(missing_ok=True)
    (os.mkfifo, os.mkdir, lambda place: place.symlink_to(place))[rng.integers(3)](path)
    with _at_most(20):
        encoder = refused(lambda: lj.load_encoder(str(new)))
    # A link to itself is as good as nothing, where nothing is needed.
    if not np.array_equal(encoder.encode(["abc"]), _tiny().encode(["abc"])):
        raise Broke(f"without {path.name}, the encoder is another")


# Values that are not embeddings, sentences or options.


def arrays(folder: Path, rng: Random) -> None:
    good = rng.standard_normal((6, DIM)).astype(np.float32)
    wide = good.astype(np.float64)
    wide[rng.integers(6), rng.integers(DIM)] = rng.choice([np.nan, np.inf, -np.inf, 1e39, -1e300])
    bads = [
        wide,
        good > 0,
        good.astype(int),
        good + 1j,
        good.astype(object),
        good.astype(str),
        good.tolist(),
        good[0],
        good[:, :0],
        good[None],
        None,
        "abc",
        {1: 2},
    ]
    bad = bads[rng.integers(len(bads))]
    x = vectors(rng)
    transform = lj.transforms.fit_center(x)
    calls = [
        lambda: transform(bad, "de"),
        lambda: lj.transforms.fit_lsar({"de": good, "en": bad}),
        lambda: lj.Moments.from_embeddings(bad),
        lambda: lj.retrieval.nearest(good, bad),
        lambda: lj.retrieval.nearest(bad, good),
        lambda: lj.mining.mine(bad, good, k=1),
        lambda: lj.transforms.fit_identifier({"de": good, "en": bad}),
        lambda: lj.transforms.fit_cbie({"de": good, "en": bad}, components=2),
    ]
    refused(calls[rng.integers(len(calls))])
    raise Broke("an array that holds no embeddings was taken")


def sentences(folder: Path, rng: Random) -> None:
    bads = [
        5,
        None,
        b"a",
        {"a"},
        {"a": 1},
        np.array([["a"]]),
        ["a", 1],
        ["a", None],
        [b"a"],
        ["\udc80"],
        [["a"]],
        2.5,
        object(),
    ]
    refused(lambda: _tiny().encode(bads[rng.integers(len(bads))]))
    raise Broke("what is not text was encoded")


_OPTIONS: dict[str, tuple[Any, ...]] = {
    "normalize": ("no", 1, None, [], np.ones(2)),
    "language": (5, {"de"}, b"de", "klingon", ["de", "en"], "auto", "de"),
    "layers": (2, "2", (), (9,), (-1,), (1.5,), (True,), {"a": 1}),
    "max_length": (0, -1, 1.5, "8", 10**9, True, np.nan),
    "token_budget": (0, -1, 1.5, "8", True),
    "prompt": (5, b"a", ["a"], "\udc80", "a b " * 5000),
    "output": ("torch", None, 5),
    "show_progress": ("yes", 1, None),
}


def options(folder: Path, rng: Random) -> None:
    name = list(_OPTIONS)[rng.integers(len(_OPTIONS))]
    values = _OPTIONS[name]
    refused(lambda: _tiny().encode(["abc"], **{name: values[rng.integers(len(values))]}))
    raise Broke(f"a wrong {name} was taken")


def caches(folder: Path, rng: Random) -> None:
    pairs = {"de": [(" ".join(rng.choice(list("abcdefgh"), 4)), "a b") for _ in range(5)]}
    with contextlib.redirect_stdout(io.StringIO()):
        x, _ = embed_pairs(_tiny(), pairs, 24, folder / "cache")
        [path] = (folder / "cache").iterdir()
        changed = damage(path, rng)
        again = refused(lambda: embed_pairs(_tiny(), pairs, 24, folder / "cache")[0])
    if changed or not np.array_equal(x, again):
        raise Broke("a cache was read although its bytes had changed")


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


# Commands: what is read is never overwritten; a full disk or a kill leaves the old file.


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


_SAVE = """
import sys, numpy as np, lsar_jax as lj
rng = np.random.default_rng(0)
x = {code: rng.standard_normal((300, 400)).astype("f") for code in ("de", "en", "zh")}
transform = lj.transforms.fit_whitening(x)
transform.save(sys.argv[1])
print("saved", flush=True)
while True:
    transform.save(sys.argv[1])
"""


def kills(folder: Path, rng: Random) -> None:
    path = folder / "t"
    command = [sys.executable, "-c", _SAVE, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(rng.random() * 0.2)
        process.send_signal(signal.SIGKILL)
    lj.Transform.load(path)  # breaks if it is not whole


def training_kills(folder: Path, rng: Random) -> None:
    write_bitext(folder / "bitext")
    command = [
        "--encoder", str(TINY), "--data", str(folder / "bitext"), "--cache", str(folder / "cache"), "--held-out", "15",
        "--batch", "16", "--layer", "2", "--max-length", "24", "--epochs", "4", "--steps-per-call", "2",
        "--checkpoint-seconds", "0",
    ]  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        if disentangle([*command, "--out", str(folder / "whole")]):
            raise Broke("a training failed")
        expected = log_of(folder / "whole")
        out = folder / "killed"
        lines = int(rng.integers(1, len(expected)))
        kill_at("train.disentangle", [*command, "--out", str(out)], out / "log.jsonl", lines)
        if disentangle([*command, "--out", str(out)]):
            raise Broke(f"a training that was killed at line {lines} did not go on")
    # On one device here and four there, sums are rounded in another order.
    if [line["step"] for line in log_of(out)] != [line["step"] for line in expected]:
        raise Broke(f"a training that was killed at line {lines} took other steps")


def forks(folder: Path, rng: Random) -> None:
    x = rng.standard_normal((4, DIM)).astype(np.float32)
    center = lj.transforms.fit_center({"de": x})
    calls = [
        lambda: center(x, "de"),
        lambda: lj.retrieval.nearest(x, x),
        lambda: lj.Moments.from_embeddings(x),
        lambda: lj.load_encoder(str(TINY)),
        lambda: _tiny().encode(["abc"]),
    ]
    call = calls[rng.integers(len(calls))]
    _tiny()

    def child() -> None:
        try:
            call()
        except RuntimeError as error:
            os._exit(0 if "was forked" in str(error) else 1)
        os._exit(2)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
    process.join(20)
    if process.is_alive():
        process.kill()
        raise Broke("a forked process hangs")
    if process.exitcode:
        raise Broke(f"a forked process ended with {process.exitcode}")
    raise Refused


@contextlib.contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise Broke(f"it hangs for {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


AREAS: dict[str, Attack] = {
    "transforms": transforms,
    "moments": moments,
    "results": results,
    "training checkpoints": training_checkpoints,
    "checkpoints": checkpoints,
    "configs": configs,
    "token ids": token_ids,
    "no files": no_files,
    "caches": caches,
    "arrays": arrays,
    "sentences": sentences,
    "options": options,
    "overwriting": overwriting,
    "evaluations": evaluations,
    "full disks": full_disks,
    "kills": kills,
    "training kills": training_kills,
    "forks": forks,
}
