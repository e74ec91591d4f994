"""The three extensions that CONTRIBUTING.md shows: each is one file and one line, and works from the command line."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.optional import need

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
TINY = ROOT / "tests" / "golden" / "bert"


def block(first):
    """The code of CONTRIBUTING.md whose first line is a comment that begins so, without that line."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [found] = [code for code in re.findall(r"```python\n(.*?)```", text, flags=re.S) if code.startswith(f"# {first}")]
    return found.partition("\n")[2]


@pytest.fixture
def checkout(tmp_path):
    """A copy of the packages, to be extended."""
    for package in ("lsar_jax", "train", "eval"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def lines_for(table):
    """The line to write into a table, as CONTRIBUTING.md has it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return next(
        code.partition("\n")[2].strip()
        for code in re.findall(r"```python\n(.*?)```", text, flags=re.S)
        if code.startswith("# in ") and table in code.partition("\n")[0]
    )


def add(checkout, path, table, before, line, imports=""):
    """Writes the file of CONTRIBUTING.md at ``path``, a line before ``before`` in a table, and its import."""
    (checkout / path).write_text(block(path), encoding="utf-8")
    text = (checkout / table).read_text(encoding="utf-8")
    assert text.count(before) == 1, before
    text = text.replace(before, f"    {line}\n{before}")
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
    table = "lsar_jax/transforms/methods.py"
    module = "lsar_jax.transforms.principal_components"
    add(
        checkout,
        "lsar_jax/transforms/principal_components.py",
        table,
        '    "leace": FitMethod',
        lines_for(table),
        f"from {module} import fit_principal_components",
    )
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
    assert np.abs(moved @ plane.T).max() < 0.1
    assert np.abs(moved).max() < 0.1
    assert np.abs(moved).max() > 0
    assert {r["transform"] for r in results(checkout / "out")} == {"original", "principal-components"}


def test_a_task(checkout):
    table = "eval/__main__.py"
    add(checkout, "eval/tasks/translation_cosine.py", table, '    "all": Command(', lines_for(table))
    out = ["--encoder", TINY, "--max-length", 24, "--layers", 2, "--languages", "de", "en", "th", "--out", "out"]
    said = run(checkout, ["eval", "translation-cosine", *out, "--transforms", "original", "center"])
    assert "Cosine of translations, in percent" in said
    original, centred = (r["value"] for r in results(checkout / "out"))
    assert -100 <= centred < original <= 100


def test_an_architecture(checkout):
    table = "lsar_jax/checkpoints/architectures/__init__.py"
    path = "lsar_jax/checkpoints/architectures/distilbert.py"
    (checkout / path).write_text(block(path), encoding="utf-8")
    text = (checkout / table).read_text(encoding="utf-8")
    new = lines_for(table)
    old = new.replace(", DISTILBERT", "")
    assert text.count(old) == 1
    imported = "from lsar_jax.checkpoints.architectures.distilbert import DISTILBERT\n\n__all__"
    (checkout / table).write_text(text.replace(old, new).replace("\n__all__", f"\n{imported}", 1), encoding="utf-8")

    sizes = {"vocab_size": 64, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 40}
    folder = checkout / "tiny"
    shutil.copytree(TINY, folder, ignore=shutil.ignore_patterns("golden.npz", "config.json", "model.safetensors"))
    (folder / "config.json").write_text(json.dumps({"model_type": "distilbert", "pad_token_id": 0, **sizes}))
    expected = torch_states(folder, sizes) if torch_is_there() else None
    if expected is None:
        write_random(folder, sizes)
    code = (
        "import sys, numpy as np, lsar_jax as lj\n"
        "from lsar_jax.__main__ import main\n"
        "assert main(['--help']) == 0\n"
        "e = lj.load_encoder('tiny')\n"
        "states = list(e.model.hidden_states(np.array([[2, 5, 9, 3]], np.int32), np.array([4], np.int32)))\n"
        "np.save('states.npy', np.stack([np.asarray(s) for s in states]))\n"
        "print(e.encode(['a b c', 'd']).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "(2, 32)"
    states = np.load(checkout / "states.npy")
    assert states.shape == (3, 1, 4, 32)
    assert np.isfinite(states).all()
    if expected is not None:
        assert np.abs(states - expected).max() < 1e-5 * np.abs(expected).max()


def torch_is_there():
    try:
        need("torch")
    except pytest.skip.Exception:
        return False
    return True


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


def write_random(folder, sizes):
    """Writes a random checkpoint without torch."""
    rng, hidden, wide = np.random.default_rng(0), sizes["dim"], sizes["hidden_dim"]
    shapes = {"embeddings.word_embeddings": (sizes["vocab_size"], hidden)}
    shapes["embeddings.position_embeddings"] = (sizes["max_position_embeddings"], hidden)
    tensors = {f"distilbert.{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()}
    layers = {"embeddings.LayerNorm": (hidden,)}
    for block in range(sizes["n_layers"]):
        at = f"transformer.layer.{block}"
        layers |= {f"{at}.attention.{name}_lin": (hidden, hidden) for name in ("q", "k", "v", "out")}
        layers |= {f"{at}.{name}": (hidden,) for name in ("sa_layer_norm", "output_layer_norm")}
        layers |= {f"{at}.ffn.lin1": (wide, hidden), f"{at}.ffn.lin2": (hidden, wide)}
    for name, shape in layers.items():
        tensors[f"distilbert.{name}.weight"] = rng.normal(size=shape)
        tensors[f"distilbert.{name}.bias"] = rng.normal(size=shape[:1])
    save_file({name: x.astype(np.float32) for name, x in tensors.items()}, folder / "model.safetensors")
