"""Processes: a kill leaves the old file or the new one, and a fork is told."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import jax
import numpy as np

import lsar_jax as lj
from tests.attack.areas.outcome import DIM, Broke, Random, Refused, tiny, vectors
from tests.conftest import TINY
from tests.embeddings.made_folder import made_folder
from tests.train.runs import kill_at, log_of, module_run, write_bitext

__all__ = ["encode_kills", "forks", "kills", "mining_kills", "training_kills"]

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
    """A training of heads killed once, anywhere, which ends in the log and the bytes of one that was not."""
    write_bitext(folder / "bitext")
    command = [
        "--encoder", str(TINY), "--data", str(folder / "bitext"), "--cache", str(folder / "cache"), "--held-out", "15",
        "--batch", "16", "--layer", "2", "--max-length", "24", "--epochs", "4", "--steps-per-call", "2",
        "--checkpoint-seconds", "0",
    ]  # fmt: skip
    whole, out = folder / "whole", folder / "killed"

    def train(folder: Path) -> None:
        run = module_run("train.disentangle", [*command, "--out", str(folder)])
        ended = subprocess.run(run, capture_output=True, text=True)
        if ended.returncode:
            raise Broke(f"a training failed: {ended.stderr}")

    train(whole)
    expected = log_of(whole)
    lines = int(rng.integers(1, len(expected)))
    kill_at("train.disentangle", [*command, "--out", str(out)], out / "log.jsonl", lines)
    train(out)
    if log_of(out) != expected:
        raise Broke(f"a training that was killed at line {lines} has another log")
    heads = sorted(whole.glob("seed-*/*.safetensors"))
    if not heads:
        raise Broke("a training has no heads")
    for head in heads:
        if (out / head.relative_to(whole)).read_bytes() != head.read_bytes():
            raise Broke(f"a training that was killed at line {lines} has another {head.name}")


def encode_kills(folder: Path, rng: Random) -> None:
    """A job of encoding killed up to three times, anywhere, which ends in the bytes of one that was not."""
    shards = 40
    made = [" ".join(rng.choice(list("abcdefghij"), rng.integers(1, 9))) for _ in range(4 * shards)]
    # Every third sentence occurs before, so that a shard takes vectors of others.
    text = [one if number % 3 else made[number // 3] for number, one in enumerate(made)]
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in text))
    command = ["encode", str(folder / "in.txt"), "OUT", "--encoder", str(TINY), "--shard-rows", "4"]
    _killed(folder, rng, command, "out/.job/[0-9]*.json", shards)


def mining_kills(folder: Path, rng: Random) -> None:
    """The like for mining of folders, with four blocks of sources."""
    for name in ("source", "target"):
        vectors = rng.standard_normal((4096, 16)).astype(np.float32)
        made_folder(folder / name, vectors, [f"{name} {row}" for row in range(len(vectors))])
    command = ["mine", str(folder / "source"), str(folder / "target"), "OUT", "--block", "1024"]
    _killed(folder, rng, command, "out.job/forward-*.safetensors", 4)


def _killed(folder: Path, rng: Random, command: list[str], finished: str, parts: int) -> None:
    """Kills a job that writes OUT up to three times, and compares its end with that of one that was not killed.

    Args:
      folder: folder of the job.
      rng: says where the job is killed.
      command: the command.
      finished: pattern of the files of which the job writes one after each part.
      parts: number of these.
    """
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "4", "HF_HUB_OFFLINE": "1"}

    def start(out: str) -> subprocess.Popen:
        run = [sys.executable, "-m", "lsar_jax", *(str(folder / out) if word == "OUT" else word for word in command)]
        return subprocess.Popen(run, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def contents(out: str) -> dict[str, bytes]:
        path = folder / out
        files = [path] if path.is_file() else list(path.iterdir())
        return {file.name if path.is_dir() else "file": file.read_bytes() for file in files}

    def run(out: str) -> None:
        # In a process of its own, whose programs are compiled as those of the killed one.
        with start(out) as process:
            _, error = process.communicate()
        if process.returncode:
            raise Broke(f"{command[0]} failed: {error[-200:]}")

    run("whole")
    places = sorted(int(rng.integers(parts)) for _ in range(rng.integers(1, 4)))
    for place in places:
        with start("out") as process:
            deadline = time.monotonic() + 120
            while len(list(folder.glob(finished))) <= place and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.001)
            time.sleep(rng.random() * 0.05)
            process.send_signal(signal.SIGKILL)
        if process.returncode == 0:
            break
    else:
        run("out")
    whole, found = contents("whole"), contents("out")
    if found != whole:
        wrong = [name for name in {**whole, **found} if whole.get(name) != found.get(name)]
        raise Broke(f"{command[0]}, killed after parts {places}, ended in other bytes of {', '.join(wrong)}")


def forks(folder: Path, rng: Random) -> None:
    x = rng.standard_normal((4, DIM)).astype(np.float32)
    device = jax.numpy.asarray(x)
    center = lj.transforms.fit_center({"de": x})
    sums = {code: lj.Moments.from_embeddings(rows, second_moment=True) for code, rows in vectors(rng).items()}
    calls = [
        lambda: center(x, "de"),
        lambda: center(device, "de"),
        lambda: lj.retrieval.nearest(x, x),
        lambda: lj.retrieval.nearest(device, device),
        lambda: lj.geometry.expected_anisotropy(device),
        lambda: lj.Moments.from_embeddings(x),
        lambda: lj.load_encoder(str(TINY)),
        lambda: tiny().encode(["abc"]),
        lambda: tiny().warm_up(),
        lambda: lj.mining.mine(x, x, k=1),
        lambda: lj.transforms.fit_lsar(sums),
        lambda: lj.transforms.fit_whitening(sums),
        lambda: lj.transforms.fit_leace(sums),
        lambda: lj.transforms.fit_identifier(lj.pool_moments(sums)),
        lambda: center.as_affine("de"),
        lambda: lj.geometry.isoscore(x),
    ]
    call = calls[rng.integers(len(calls))]
    tiny()

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
