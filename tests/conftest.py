"""Several devices on one CPU, strict dtypes, and encoders that many tests share."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import jax

jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_numpy_dtype_promotion", "strict")

from pathlib import Path

import jaxtyping
import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.mesh import data_mesh

TINY = Path(__file__).parent / "golden" / "bert"


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def unchecked():
    """Turns off the checking of annotations, to see the errors that users see."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def tiny_folder():
    """A Hugging Face folder of a 3-block BERT with random weights; see make_golden.py."""
    return TINY


@pytest.fixture(scope="session")
def tiny():
    """The tiny encoder on one device."""
    return lj.load_encoder(str(TINY), mesh=data_mesh(jax.devices()[:1]))


@pytest.fixture(scope="session")
def bundled():
    """The real encoder's first four blocks, on one device."""
    return lj.load_encoder("bundled", layer=4, mesh=data_mesh(jax.devices()[:1]))
