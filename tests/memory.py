"""Peak resident memory of a process that loads an encoder.

    python -m tests.memory

Writes checkpoints of XLM-R's published sizes with random weights and the bundled encoder's
tokenizer, which has XLM-R's 250,002 pieces, and loads each in a process of its own.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from lsar_jax.checkpoints.architectures import XLM_R
from tests.parity import GOLDEN

BASE = {"vocab_size": 250_002, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
BASE |= {"intermediate_size": 3072, "max_position_embeddings": 514}
LARGE = BASE | {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}


def write_random(folder, sizes):
    """Writes an XLM-R checkpoint of these sizes."""
    shutil.copytree(GOLDEN / "xlm-roberta", folder)
    path = folder / "config.json"
    config = json.loads(path.read_text()) | sizes
    path.write_text(json.dumps(config))
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    rows = {"word": config["vocab_size"], "position": config["max_position_embeddings"], "token_type": 1}
    rng = np.random.default_rng(0)
    tensors = {}
    for leaf, key in XLM_R.keys.items():
        shape = (hidden,)
        if leaf.startswith("embeddings.") and leaf.endswith("embedding"):
            shape = (rows[leaf.split(".")[1]], hidden)
        elif leaf.endswith("kernel"):
            shape = {"feed_in": (wide, hidden), "feed_out": (hidden, wide)}.get(leaf.split(".")[2], (hidden, hidden))
        elif leaf.endswith("feed_in.bias"):
            shape = (wide,)
        for block in range(config["num_hidden_layers"]) if "{}" in leaf else (0,):
            tensors[key.format(block)] = rng.random(shape, np.float32) - 0.5
    save_file(tensors, folder / "model.safetensors")


def measure(name, **arguments):
    """Returns bytes: of the process before the load, at its peak, and of the encoder's tensors."""
    code = f"""
import re, jax
jax.config.update("jax_num_cpu_devices", 1)
import lsar_jax as lj
def kept(key):
    return 1024 * int(re.search(key + r":\\s+(\\d+)", open("/proc/self/status").read())[1])
before = kept("VmRSS")
encoder = lj.load_encoder({str(name)!r}, **{arguments!r})
print(before, kept("VmHWM"), sum(leaf.nbytes for leaf in jax.tree.leaves(encoder.model)))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return tuple(map(int, run.stdout.split()))


def main():
    import lsar_jax as lj

    print("| MB (10^6 bytes) | tensors | before the load | peak | 1.25 x tensors + 300 |")
    print("| --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as scratch:
        cases = [("`bundled`", "bundled", {})]
        for name, sizes in (("base", BASE), ("large", LARGE)):
            folder = Path(scratch) / name
            write_random(folder, sizes)
            lj.load_encoder("bundled", layer=0).tokenizer.save(folder / "tokenizer.json")
            cases.append((f"XLM-R {name}'s sizes", folder, {}))
        cases += [("the same, `layer=11`", folder, {"layer": 11})]
        cases += [("the same, `dtype='bfloat16'`", folder, {"dtype": "bfloat16"})]
        for label, name, arguments in cases:
            before, peak, tensors = (size / 1e6 for size in measure(name, **arguments))
            print(f"| {label} | {tensors:.0f} | {before:.0f} | {peak:.0f} | {1.25 * tensors + 300:.0f} |", flush=True)


if __name__ == "__main__":
    main()
