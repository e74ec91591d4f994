"""Encodes with sentence-transformers in a process of its own, at the word of ``eval.speed.encoding``.

OpenVINO and ONNX Runtime need other versions of transformers than this library, so this file runs in their environment
and imports nothing of ours. It reads commands from its input, one a line, and answers each with a line of JSON.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    """Loads the model of the first argument, a JSON object of options, and answers until the input ends."""
    options = json.loads(sys.argv[1])
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print too

    def answer(**parts: Any) -> None:
        print(json.dumps(parts), file=answers, flush=True)

    sentences = json.loads(Path(options["sentences"]).read_text(encoding="utf-8"))
    model = _load(options)
    answer(computes_in=_precision(model, options), versions=_versions(options["backend"]))

    def encode(texts: Any) -> tuple[float, np.ndarray]:
        started = time.perf_counter()
        vectors = model.encode(texts, batch_size=options["batch_size"], show_progress_bar=False)
        return time.perf_counter() - started, vectors

    for line in sys.stdin:
        if line.strip() == "encode":
            answer(seconds=encode(sentences)[0])
        elif line.strip() == "one":
            answer(seconds=float(np.median([encode(sentences[0])[0] for _ in range(20)])))
        else:
            np.save(options["out"], np.asarray(encode(sentences)[1], np.float32))
            answer(saved=options["out"])


def _load(options: dict[str, Any]) -> Any:
    from sentence_transformers import SentenceTransformer

    dtype, backend = options["dtype"], options["backend"]
    given: dict[str, Any] = {"dtype": dtype}
    if backend == "openvino":
        given = {"ov_config": {} if dtype == "default" else {"INFERENCE_PRECISION_HINT": "f32"}}
    elif backend == "onnx":
        given = {"provider": "CPUExecutionProvider"}
    model = SentenceTransformer(options["folder"], backend=backend, model_kwargs=given, device=options["device"])
    model.max_seq_length = options["max_length"]
    return model


def _precision(model: Any, options: dict[str, Any]) -> str:
    if options["backend"] == "openvino":
        part = model[0].auto_model
        part.compile()
        return str(part.request.get_property("INFERENCE_PRECISION_HINT").to_string())
    return "f32" if options["backend"] == "onnx" else str(options["dtype"])


def _versions(backend: str) -> str:
    from importlib.metadata import version

    packages = {"torch": ["torch"], "openvino": ["openvino"], "onnx": ["onnxruntime"]}[backend]
    return ", ".join(f"{name} {version(name)}" for name in ["sentence-transformers", *packages])


if __name__ == "__main__":
    main()
