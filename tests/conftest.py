"""One device by default, several where a test asks for them, strict dtypes, and encoders that many tests share."""

import ctypes
import gc
import os
import sys
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
# There is a test process for each core, and the threads of BLAS and torch would wait for each other: the tests of a
# classifier took twice the time. numpy is imported before this file, but not in the processes that xdist starts.
os.environ["OMP_NUM_THREADS"] = "1"
# Two thirds of the tests' time is compiling, and a program runs a few times at most: XLA's costly passes are left out
# (LSAR_JAX_OPTIMIZE=1 keeps them), and both test processes, those that tests start, and the next run share one cache.
OPTIMIZE = bool(os.environ.get("LSAR_JAX_OPTIMIZE"))
CACHE = Path(__file__).parents[1] / ".pytest_cache" / ("xla-optimized" if OPTIMIZE else "xla")
os.environ |= {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": str(not OPTIMIZE),
    "JAX_COMPILATION_CACHE_DIR": str(CACHE),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
if not OPTIMIZE and version("jaxlib").startswith("0.10."):
    # The older emitters of loops compile a program of the encoder in 40% of the time. Other versions of XLA may not
    # have them, and would end the process at a flag that they do not know.
    fast = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {fast}".strip()

import jax

# Four devices for the tests of sharding, which name them (``jax.devices()``). The default mesh, made of the local
# devices, has one: a program for several takes three times as long to compile.
jax.config.update("jax_num_cpu_devices", 4)
jax.local_devices = lambda: jax.devices()[:1]
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

import jaxtyping
import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.mesh import data_mesh
from tests.fake_encoder import FakeEncoder

TINY = Path(__file__).parent / "golden" / "bert"


_limit = 1.2e9


@pytest.fixture(autouse=True)
def memory():
    """Drops compiled programs after a test that leaves a process of more than 1.2 GB; the cache on disk has them.

    What the process holds without programs differs by its imports: it may grow by 0.4 GB until they are dropped again.
    """
    global _limit
    yield
    if sys.platform == "linux" and _resident() > _limit:
        jax.clear_caches()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps would count for ever
        _limit = max(1.2e9, _resident() + 0.4e9)


def _resident():
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def refused(capsys):
    """A function that runs a command, which must fail with one line of error, and returns this line."""

    def error_of(main, arguments):
        capsys.readouterr()
        assert main(list(map(str, arguments))) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1, error
        return error

    return error_of


@pytest.fixture
def printed(capsys):
    """A function that runs a command, which must succeed, and returns what it prints."""

    def output_of(main, arguments):
        capsys.readouterr()
        assert main(list(map(str, arguments))) == 0
        return capsys.readouterr().out

    return output_of


@pytest.fixture
def all_progress(monkeypatch):
    """Progress is printed from the first batch on, and after each."""
    for name in ("_FIRST", "_EVERY"):
        monkeypatch.setattr(f"lsar_jax.encoders.progress.{name}", 0.0)


@pytest.fixture
def unchecked():
    """Turns off the checking of annotations, to see the errors that users see."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def tiny_folder():
    """A Hugging Face folder of a 3-block BERT with random weights; see .ci/make_golden.py."""
    return TINY


@pytest.fixture(scope="session")
def tiny():
    """The tiny encoder on one device."""
    return lj.load_encoder(str(TINY), mesh=data_mesh(jax.devices()[:1]))


@pytest.fixture(scope="session")
def bundled():
    """The real encoder's first four blocks, on one device."""
    return lj.load_encoder("bundled", layer=4, mesh=data_mesh(jax.devices()[:1]))


@pytest.fixture(scope="module")
def bundled_once():
    """``lj.load_encoder`` reads the bundled encoder once for the same options, which takes two seconds."""
    load = lj.load_encoder
    bundled = lru_cache(maxsize=2)(partial(load, "bundled"))

    def once(name, **options):
        return bundled(**options) if name == "bundled" else load(name, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lj, "load_encoder", once)
        yield


@pytest.fixture(scope="module")
def fake():
    """Commands of ``eval`` and ``train`` open an encoder without a model, whatever ``--encoder`` names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lsar_jax.options.encoder.load_encoder", FakeEncoder.load)
        patch.setattr("eval.suite.load_encoder", FakeEncoder.load)
        yield FakeEncoder
