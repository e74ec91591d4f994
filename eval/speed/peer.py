"""PyTorch, as the peer of benchmarks."""

from typing import Any

import jax

from lsar_jax.cli.console import console

__all__ = ["import_torch"]


def import_torch() -> tuple[Any, str]:
    """Returns torch and the device to run it on, the kind that jax runs on, and prints both.

    Raises:
      ImportError: torch is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("torch is not installed: pip install torch") from error
    device = "cuda" if jax.default_backend() == "gpu" and torch.cuda.is_available() else "cpu"
    console.print(f"torch {torch.__version__} on {device}, {torch.get_num_threads()} threads")
    return torch, device
