"""The three extensions that CONTRIBUTING.md shows: each is one file and one line, and works from the command line."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.optional import need

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
TINY = ROOT / "tests" / "golden" / "bert"


def block(path):
    """The code of CONTRIBUTING.md whose first line is a comment that names this file, without that line."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [found] = re.findall(rf"```python\n# [^\n]*{re.escape(path)}[^\n]*\n(.*?)```", text, flags=re.S)
    return found


@pytest.fixture
def checkout(tmp_path):
    """A copy of the packages, to be extended."""
    for package in ("lsar_jax", "train", "eval"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def add(checkout, path, table, before, imports=""):
    """Writes the file of CONTRIBUTING.md at ``path``, its line before ``before`` in a table, and its import."""
    (checkout / path).write_text(block(path), encoding="utf-8")
    text = (checkout / table).read_text(encoding="utf-8")
    assert text.count(before) == 1, before
    text = text.replace(before, f"    {block(table).strip()}\n{before}")
    (checkout / table).write_text(text.replace("\n__all__", f"\n{imports}\n\n__all__", 1), encoding="utf-8")


def run(checkout, *commands):
    """Runs commands, each the name of a package and its arguments, in one process; returns what they print."""
    code = "".join(
        f"from {package}.__main__ import main\nassert main({list(map(str, arguments))}) == 0\n"
        for package, *arguments in commands
    )
    how = ["-m", *map(str, commands[0])] if len(commands) == 1 else ["-c", code]
    done = subprocess.run([sys.executable, *how], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def results(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_transform(checkout, rng):
    path, table = (f"lsar_jax/transforms/{name}.py" for name in ("principal_components", "methods"))
    imports = "from lsar_jax.transforms.principal_components import fit_principal_components"
    add(checkout, path, table, '    "leace": FitMethod', imports)
    # Three languages whose means span a plane, far from zero.
    plane, offset = np.linalg.qr(rng.normal(size=(16, 2)))[0].T, rng.normal(size=16)
    for code, place in {"de": (1, 0), "en": (0, 2), "th": (-1, -2)}.items():
        x = rng.normal(scale=0.01, size=(50, 16)) + 10 * np.array(place) @ plane + offset
        np.save(checkout / f"{code}.npy", x)
    data = [f"{code}={code}.npy" for code in ("de", "en", "th")]
    fit = ["lsar_jax", "fit", "principal-components", "pc.safetensors", "--components", 2, "--data", *data]
    task = ["eval", "udhr", "--encoder", TINY, "--max-length", 24, "--layers", 2, "--languages", "de", "en", "th"]
    said = run(
        checkout,
        fit,
        ["lsar_jax", "apply", "pc.safetensors", "th.npy", "moved.npy"],
        [*task, "--ranks", 1, "--transforms", "original", "principal-components", "--out", "out"],
    )
    assert "principal-components(components=2) on 150 sentences" in said
    moved = np.load(checkout / "moved.npy")
    assert 0 < np.abs(moved).max() < 0.1
    assert {r["transform"] for r in results(checkout / "out")} == {"original", "principal-components"}


def test_a_task(checkout):
    add(checkout, "eval/tasks/translation_cosine.py", "eval/__main__.py", '    "all": Command(')
    out = ["--encoder", TINY, "--max-length", 24, "--layers", 2, "--languages", "de", "en", "th", "--out", "out"]
    said = run(checkout, ["eval", "translation-cosine", *out, "--transforms", "original", "center"])
    assert "Cosine of translations, in percent" in said
    original, centred = (r["value"] for r in results(checkout / "out"))
    assert -100 <= centred < original <= 100


def test_an_architecture(checkout):
    need("torch")
    table = "lsar_jax/checkpoints/architectures/__init__.py"
    path = "lsar_jax/checkpoints/architectures/distilbert.py"
    (checkout / path).write_text(block(path), encoding="utf-8")
    text = (checkout / table).read_text(encoding="utf-8")
    new = block(table).strip()
    old = new.replace(", DISTILBERT", "")
    assert text.count(old) == 1
    imported = "from lsar_jax.checkpoints.architectures.distilbert import DISTILBERT\n\n__all__"
    (checkout / table).write_text(text.replace(old, new).replace("\n__all__", f"\n{imported}", 1), encoding="utf-8")

    sizes = {"vocab_size": 64, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 40}
    folder = checkout / "tiny"
    shutil.copytree(TINY, folder, ignore=shutil.ignore_patterns("golden.npz", "config.json", "model.safetensors"))
    (folder / "config.json").write_text(json.dumps({"model_type": "distilbert", "pad_token_id": 0, **sizes}))
    expected = torch_states(folder, sizes)
    code = (
        "import sys, numpy as np, lsar_jax as lj\n"
        "from lsar_jax.__main__ import main\n"
        "assert main(['--help']) == 0\n"
        "e = lj.load_encoder('tiny')\n"
        "states = list(e.model.hidden_states(np.array([[2, 5, 9, 3]], np.int32), np.array([[4]], np.int32)))\n"
        "np.save('states.npy', np.stack([np.asarray(s) for s in states]))\n"
        "print(e.encode(['a b c', 'd']).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "(2, 32)"
    states = np.load(checkout / "states.npy")
    assert states.shape == (3, 1, 4, 32)
    assert np.abs(states - expected).max() < 1e-5 * np.abs(expected).max()


def torch_states(folder, sizes):
    """Writes a random checkpoint by transformers; returns torch's hidden states."""
    import torch
    from transformers import DistilBertConfig, DistilBertModel

    torch.manual_seed(0)
    model = DistilBertModel(DistilBertConfig(**sizes, initializer_range=0.3)).eval()
    model.save_pretrained(folder)
    with torch.no_grad():
        output = model(torch.tensor([[2, 5, 9, 3]]), output_hidden_states=True)
    return np.stack([state.numpy() for state in output.hidden_states])
