"""The first call of a process, with programs compiled, written to disk, and read from there.

Three processes, one after another, encode 59 paragraphs of the UDHR in five languages with the bundled encoder. To
import the library and to load the encoder is not counted. The first process keeps no programs, the second writes them
into an empty folder, and the third reads them. The second call of the third process is timed too.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from eval.speed.timing import HERE, Measured
from lsar_jax.checkpoints.bundled import find_weights

__all__ = ["first"]

_PROCESS = """
import sys, time
import lsar_jax as lj
if sys.argv[1]:
    lj.cache_programs(sys.argv[1])
text = lj.corpora.udhr("fit", ["en", "de", "zh", "ar", "sw"])
sentences = [sentence for paragraphs in text.values() for sentence in paragraphs][:59]
encoder = lj.load_encoder("bundled")
for _ in range(2):
    started = time.perf_counter()
    encoder.encode(sentences)
    print(time.perf_counter() - started)
"""


def first() -> Iterator[Measured]:
    """Times the processes; raises ImportError if the bundled encoder is not installed."""
    find_weights()
    with tempfile.TemporaryDirectory() as folder:
        calls = [_calls(where) for where in ("", folder, folder)]
    for name, (seconds, _) in zip(("compiled", "compiled and written", "read from disk"), calls, strict=True):
        yield Measured(name, HERE, seconds, "59 paragraphs")
    yield Measured("second call", HERE, calls[-1][1], "59 paragraphs")


def _calls(folder: str) -> list[float]:
    """Times two calls of a new process, which keeps its programs in a folder, or nowhere."""
    variables = {name: value for name, value in os.environ.items() if not (name.startswith("JAX_") and "CACHE" in name)}
    variables["JAX_ENABLE_COMPILATION_CACHE"] = str(int(bool(folder)))
    variables["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # this process may have taken most of a GPU's memory
    command = [sys.executable, "-c", _PROCESS, folder]
    done = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    return [float(line) for line in done.stdout.split()]
