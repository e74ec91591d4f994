"""Encodes with sentence-transformers in a process of its own, at the word of ``eval.bench.peers.encode``.

OpenVINO and ONNX Runtime need other versions of transformers than this library, so this file runs in their environment
and imports nothing of ours. A line of its input is the name of some sentences; it saves their vectors and answers.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

_PACKAGES = {"torch": "torch", "openvino": "openvino", "onnx": "onnxruntime"}


def main() -> None:
    """Loads the model of the first argument, a JSON object of options, and answers until the input ends."""
    options = json.loads(sys.argv[1])
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print too
    model, precision = _load(**options)
    names = "sentence-transformers", _PACKAGES[options["backend"]]
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    print(json.dumps({"computes_in": precision, "versions": versions}), file=answers, flush=True)
    sentences = json.loads(Path(options["sentences"]).read_text(encoding="utf-8"))
    for line in sys.stdin:
        texts = sentences[line.rstrip("\n")]
        vectors = model.encode(texts, batch_size=options["batch_size"], show_progress_bar=False)
        np.save(options["out"], np.asarray(vectors, np.float32))
        print("saved", file=answers, flush=True)


def _load(backend: Any, dtype: str, folder: str, device: str, max_length: int, **_: Any) -> tuple[Any, str]:
    from sentence_transformers import SentenceTransformer

    arguments: dict[str, dict[str, Any]] = {
        "torch": {"dtype": dtype},
        "openvino": {"ov_config": {} if dtype == "default" else {"INFERENCE_PRECISION_HINT": "f32"}},
        "onnx": {"provider": "CPUExecutionProvider"},
    }
    model: Any = SentenceTransformer(folder, backend=backend, model_kwargs=arguments[backend], device=device)
    model.max_seq_length = max_length
    if backend != "openvino":
        return model, dtype
    network = model[0].auto_model
    network.compile()
    return model, network.request.get_property("INFERENCE_PRECISION_HINT").to_string()


if __name__ == "__main__":
    main()
