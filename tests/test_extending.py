"""The extensions that the how-to pages show: each is one file and one line, and works from the command line."""

import json
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests import reference

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
TINY = ROOT / "tests" / "golden" / "bert"


def block(path):
    """The code of a how-to page whose first line is a comment that names this file, without that line."""
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "how-to").glob("own-*.md"))
    [found] = re.findall(rf"```(?:py|toml)\n# [^\n]*{re.escape(path)}[^\n]*\n(.*?)```", text, flags=re.S)
    return found


@pytest.fixture
def checkout(tmp_path):
    """A copy of the packages, to be extended."""
    for package in ("lsar_jax", "train", "eval"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def add(checkout, path, table, before, imports=""):
    """Writes the file of a page at ``path``, its line before ``before`` in a table, and its import."""
    (checkout / path).write_text(block(path), encoding="utf-8")
    text = (checkout / table).read_text(encoding="utf-8")
    assert text.count(before) == 1, before
    text = text.replace(before, f"    {block(table).strip()}\n{before}")
    (checkout / table).write_text(text.replace("\n__all__", f"\n{imports}\n\n__all__", 1), encoding="utf-8")


def run(checkout, *commands):
    """Runs commands, each the name of a package and its arguments, in one process; returns what they print."""
    call = "from {}.__main__ import main\nassert main({}) == 0\n"
    code = "".join(call.format(package, list(map(str, arguments))) for package, *arguments in commands)
    how = ["-m", *map(str, commands[0])] if len(commands) == 1 else ["-c", code]
    done = subprocess.run([sys.executable, *how], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def results(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_transform(checkout, rng):
    path, table = (f"lsar_jax/transforms/methods/{name}.py" for name in ("principal_components", "__init__"))
    imports = "from lsar_jax.transforms.methods.principal_components import fit_principal_components"
    add(checkout, path, table, '    "leace": FitMethod', imports)
    # Three languages whose means span a plane, far from zero.
    plane, offset = np.linalg.qr(rng.normal(size=(16, 2)))[0].T, rng.normal(size=16)
    for code, place in {"de": (1, 0), "en": (0, 2), "th": (-1, -2)}.items():
        x = rng.normal(scale=0.01, size=(50, 16)) + 10 * np.array(place) @ plane + offset
        np.save(checkout / f"{code}.npy", x)
    data = ["--texts", "de.npy", "en.npy", "th.npy"]
    fit = ["lsar_jax", "fit", "principal-components", "pc.safetensors", "--components", 2, *data]
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
    add(checkout, "eval/tasks/translation_cosine.py", "eval/commands.toml", "all = [")
    out = ["--encoder", TINY, "--max-length", 24, "--layers", 2, "--languages", "de", "en", "th", "--out", "out"]
    said = run(checkout, ["eval", "translation-cosine", *out, "--transforms", "original", "center"])
    assert "Cosine of translations, in percent" in said
    original, centred = (r["value"] for r in results(checkout / "out"))
    assert -100 <= centred < original <= 100


SKYLARK = {
    "model_type": "skylark", "vocab_size": 64, "width": 32, "num_layers": 2, "num_heads": 4, "gate_width": 48,
    "max_length": 40, "norm_eps": 1e-3, "rope_theta": 100.0, "pad_token_id": 0,
}  # fmt: skip


def test_an_architecture(checkout, rng):
    table, path = (f"lsar_jax/models/architectures/{name}.py" for name in ("__init__", "skylark"))
    (checkout / path).write_text(block(path), encoding="utf-8")
    text = (checkout / table).read_text(encoding="utf-8")
    assert text.count("\n_EVERY = (") == 1
    text = text.replace("\n_EVERY = (", "\n_EVERY = (SKYLARK, ")
    (checkout / table).write_text(text.replace("\n__all__", f"\n{block(table)}\n__all__", 1), encoding="utf-8")

    folder = checkout / "tiny"
    shutil.copytree(TINY, folder, ignore=shutil.ignore_patterns("golden.npz", "config.json", "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(SKYLARK))
    tensors = random_tensors(rng)
    unused = {"head.weight": np.zeros((2, 2), np.float32)}
    save_file({f"model.{name}": value for name, value in tensors.items()} | unused, folder / "model.safetensors")
    code = (
        "import numpy as np, lsar_jax as lj\n"
        "from lsar_jax.__main__ import main\n"
        "assert main(['--help']) == 0\n"
        "e = lj.load_encoder('tiny')\n"
        "ids, lengths = np.array([[2, 5, 9, 7, 3, 2, 8, 3, 0]], np.int32), np.array([[5, 3]], np.int32)\n"
        "np.save('states.npy', np.stack(list(map(np.asarray, e.model.hidden_states(ids, lengths)))))\n"
        "assert lj.load_encoder('tiny', layer=1).encode('a b c', layers=[0, 1]).shape == (2, 32)\n"
        "print(e.encode(['a b c', 'd']).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "(2, 32)"
    states = np.load(checkout / "states.npy")[:, 0]
    for at, ids in ((slice(0, 5), [2, 5, 9, 7, 3]), (slice(5, 8), [2, 8, 3])):
        expected = twin(tensors, ids)
        assert np.abs(states[:, at] - expected).max() < 1e-5 * np.abs(expected).max()
        swapped = {name.replace("gate", "?").replace("up", "gate").replace("?", "up"): x for name, x in tensors.items()}
        for wrong in (twin(swapped, ids), twin(tensors, ids, theta=10_000.0), twin(tensors, ids, epsilon=1e-5)):
            assert np.abs(states[:, at] - wrong).max() > 1e-4 * np.abs(expected).max()


def random_tensors(rng):
    """The weights of a tiny Skylark, none of which is without effect."""
    tensors = {"tokens.weight": rng.standard_normal((64, 32))}
    norms = ["tokens_norm", *(f"layers.{i}.{kind}_norm" for i in range(2) for kind in ("mixer", "mlp"))]
    for norm in norms:
        tensors |= {f"{norm}.weight": rng.uniform(0.5, 1.5, 32), f"{norm}.bias": rng.normal(0, 0.5, 32)}
    shapes = {f"mixer.{name}": (32, 32) for name in ("q", "k", "v", "out")}
    shapes |= {"mlp.gate": (48, 32), "mlp.up": (48, 32), "mlp.down": (32, 48)}
    for name, (outer, inner) in shapes.items():
        for i in range(2):
            tensors[f"layers.{i}.{name}.weight"] = rng.normal(0, inner**-0.5, (outer, inner))
            tensors[f"layers.{i}.{name}.bias"] = rng.normal(0, 0.5, outer)
    return {name: value.astype(np.float32) for name, value in tensors.items()}


def twin(tensors, ids, theta=100.0, epsilon=1e-3):
    """Skylark in numpy, in float64, of one sentence: its states, ``[layer, token, width]``."""
    weights = {name: value.astype(np.float64) for name, value in tensors.items()}

    norm, linear = partial(reference.layer_norm, weights, epsilon=epsilon), partial(reference.linear, weights)
    states = [norm("tokens_norm", weights["tokens.weight"][ids])]
    for i in range(2):
        x, at = states[-1], f"layers.{i}"
        query, key, value = (linear(f"{at}.mixer.{name}", x).reshape(len(ids), 4, 8) for name in "qkv")
        mixed = reference.rotary_attention(query, key, value, theta)
        x = norm(f"{at}.mixer_norm", x + linear(f"{at}.mixer.out", mixed))
        gate = linear(f"{at}.mlp.gate", x)
        fed = linear(f"{at}.mlp.down", gate / (1 + np.exp(-gate)) * linear(f"{at}.mlp.up", x))
        states.append(norm(f"{at}.mlp_norm", x + fed))
    return np.stack(states)
