"""Changes files: of arrays, as an attacker would who knows their digests, and of JSON."""

import json

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from lsar_jax.array_files import save_arrays

__all__ = ["FOLDERS", "edit_json", "edit_tensors", "move_module", "rewrite", "write_modules"]

FOLDERS = {
    "Transformer": "", "Pooling": "1_Pooling", "Dense": "2_Dense", "Normalize": "3_Normalize",
    "LayerNorm": "4_LayerNorm", "Dropout": "5_Dropout",
}  # fmt: skip


def rewrite(path, change):
    """Writes the file again after ``change(arrays, header)``; ``header["format"]`` replaces the format."""
    with safe_open(path, framework="numpy") as file:
        arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 - not a dict
        contents = json.loads(json.loads(file.metadata()["lsar_jax"])["contents"])
    header = contents["header"]
    change(arrays, header)
    save_arrays(path, arrays, format=header.pop("format", contents["format"]), header=header)


def edit_json(path, **changes):
    """Changes fields of an object in a file, which need not exist, nor its folder; ... removes one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = (json.loads(path.read_text()) if path.exists() else {}) | changes
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not ...}))


def edit_tensors(folder, changes):
    """Changes tensors of a checkpoint by name; ... removes one."""
    tensors = load_file(folder / "model.safetensors") | changes
    save_file({name: x for name, x in tensors.items() if x is not ...}, folder / "model.safetensors")


def write_modules(folder, *kinds):
    """Writes the ``modules.json`` of a pipeline of sentence-transformers."""
    place = "sentence_transformers.models"
    modules = [{"name": kind, "type": f"{place}.{kind}", "path": FOLDERS.get(kind, "9_Other")} for kind in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))


def move_module(folder, path, *names):
    """Moves files of the first module of ``modules.json`` to a folder of its own."""
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = path
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / path).mkdir()
    for name in names:
        (folder / name).rename(folder / path / name)
