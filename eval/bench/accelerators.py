"""The devices to compile for, none of which has to be there."""

import ctypes
import os
import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
from jax.experimental import topologies
from jax.sharding import Mesh

from lsar_jax.mesh import data_mesh

__all__ = ["TARGETS", "Target", "check_installed", "mesh_of", "prepare"]


@dataclass(frozen=True)
class Target:
    """A device, or several of a kind."""

    platform: str  # tpu or cuda
    topology: str  # how they are connected, as XLA names it
    devices: int  # how many of them to use
    # Of one device, as its maker publishes them: bytes of memory, and operations a second of products in bfloat16,
    # float32, and fast_float32, as the device computes float32 by default, with fewer digits.
    peaks: Mapping[str, float]

    def versions(self) -> str:
        """The versions of jax and of the compiler."""
        package = {"tpu": "libtpu", "cuda": "jax-cuda12-pjrt"}.get(self.platform, "jaxlib")
        return f"jax {jax.__version__}, {package} {version(package)}"


_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TARGETS = {name: Target(**{**of, "peaks": _DATA["peaks"][of["peaks"]]}) for name, of in _DATA["targets"].items()}

# A GpuTargetConfigProto. Names and versions, which no compiler asks for, are as short as they can be.
_H200 = Path(__file__).with_name("h200.textproto").read_text(encoding="utf-8")


def prepare() -> None:
    """Sets the options that the compilers read when JAX starts them; call it before anything is computed."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_compilation_cache", False)
    os.environ["TPU_SKIP_MDS_QUERY"] = "1"  # asks no metadata server which TPU this is
    os.environ["ALLOW_MULTIPLE_LIBTPU_LOAD"] = "1"  # a device is for one process, but none is used
    os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"
    if (folder := _nvidia()) is None:
        return
    # Tiles are tuned on a device.
    flags = f"--xla_gpu_autotune_level=0 --xla_gpu_cuda_data_dir={folder / 'cuda_nvcc'}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    if (cudnn := folder / "cudnn" / "lib" / "libcudnn.so.9").exists():
        # XLA asks the loader for it by name.
        ctypes.CDLL(str(cudnn), mode=ctypes.RTLD_GLOBAL)


def check_installed(name: str) -> None:
    """Raises ImportError if the compiler for a target, given by its name, is not installed."""
    with suppress(PackageNotFoundError):
        if TARGETS[name].versions() and (TARGETS[name].platform == "tpu" or _nvidia()):
            return
    raise ImportError(f"the compiler for {name} is not installed: pip install -e '.[aot]'")


def mesh_of(target: Target) -> Mesh:
    """Makes the mesh of a target, whose compiler is installed."""
    options: dict[str, Any] = {"target_config": _H200, "topology": target.topology}
    if target.platform == "tpu":
        options = {"topology_name": target.topology}
    topology = topologies.get_topology_desc(platform=target.platform, **options)
    return data_mesh(list(topology.devices)[: target.devices])


def _nvidia() -> Path | None:
    """The folder of NVIDIA's packages that has the assembler."""
    folders = (Path(folder) / "nvidia" for folder in sys.path)
    return next((folder.resolve() for folder in folders if (folder / "cuda_nvcc").is_dir()), None)
