"""Runs of a training command: text for them, killing one, and comparing what they logged."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np

__all__ = ["kill_at", "log_of", "write_bitext"]


def write_bitext(folder):
    """Writes bitext of two languages, 80 pairs each."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    english = [" ".join(rng.choice(list("abcdefgh"), 9)) for _ in range(80)]
    for code in ("de", "fr"):
        rows = [f"d\t{text}\t{text.translate(str.maketrans('ab', 'xy'))} {code}\n" for text in english]
        (folder / f"en-{code}.tsv").write_text("".join(rows))


def kill_at(module, arguments, log, lines):
    """Runs a command with as many devices as the tests have, and kills it when its log has this many lines."""
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "4", "HF_HUB_OFFLINE": "1"}
    run = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(run, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 300
        while not log.is_file() or len(log.read_text().splitlines()) < lines:
            assert process.poll() is None, process.stderr.read().decode()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)


def log_of(folder):
    """Returns the lines of a run's log but for the time they took."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "steps_per_second"} for line in lines]
