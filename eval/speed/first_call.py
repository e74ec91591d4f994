"""Time of the first call of a process, with programs compiled, written to disk, and read from there.

    python -m eval speed --benchmarks first

Three processes, one after another, encode 59 paragraphs of the UDHR in five languages with the bundled encoder. To
import the library and to load the encoder is not counted. The first process keeps no programs, the second writes them
into an empty folder, and the third reads them. The second call of the third process is timed too.
"""

import os
import subprocess
import sys
import tempfile

from eval.speed.timing import HERE, Measured
from lsar_jax.checkpoints.bundled import find_weights
from lsar_jax.cli.console import console

__all__ = ["first_calls"]

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


def first_calls() -> list[Measured]:
    """Times the processes, prints their times and returns them.

    Raises:
      ImportError: the bundled encoder is not installed.
    """
    find_weights()
    with tempfile.TemporaryDirectory() as folder:
        cold, written, read = _calls(""), _calls(folder), _calls(folder)
    times = {"compiled": cold[0], "compiled and written": written[0], "read from disk": read[0], "second call": read[1]}
    for name, seconds in times.items():
        console.print(f"first call, {name}: {seconds:.2f} s")
    return [Measured(name, HERE, seconds, "59 paragraphs") for name, seconds in times.items()]


def _calls(folder: str) -> list[float]:
    """Returns the seconds of two calls of a new process, which keeps its programs in a folder, or nowhere."""
    own = {name: value for name, value in os.environ.items() if not (name.startswith("JAX_") and "CACHE" in name)}
    own["JAX_ENABLE_COMPILATION_CACHE"] = str(int(bool(folder)))
    own["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # this process may have taken most of a GPU's memory
    done = subprocess.run([sys.executable, "-c", _PROCESS, folder], env=own, check=True, capture_output=True, text=True)
    return [float(line) for line in done.stdout.split()]
