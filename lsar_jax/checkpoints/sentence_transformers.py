"""The pipeline of a sentence-transformers folder: ``modules.json`` and the folders that it names.

The supported modules are Transformer and Pooling, in this order, or StaticEmbedding, followed by Dense, LayerNorm,
Normalize and Dropout, which only training applies, in any order. Class names are compared but never imported, so no
code of a checkpoint is run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lsar_jax.checkpoints.module_settings import APPLIED, MODES, SENTENCE, Unsupported, check_keys, check_text
from lsar_jax.checkpoints.weight_files import Tensor, open_safetensors, read_tensor
from lsar_jax.checks import check_choice, check_flags, errors_of, whole_number
from lsar_jax.files import inside, read_json
from lsar_jax.models.architectures.static import STATIC
from lsar_jax.models.projection import TORCH_NAMES, Dense, Int8, Layer, LayerNorm, Normalize, Truncate

__all__ = ["LONGEST_PROMPT", "Pipeline", "module_folders", "read_pipeline"]

# Most characters of a prompt, which is read with each sentence and written with all that is computed.
LONGEST_PROMPT = 100_000
# What only a folder with a modules.json has.
_TRACES = ("config_sentence_transformers.json", "sentence_*_config.json", "[0-9]_*/config.json")
# The class of jina-embeddings-v3 and -v5, and the names of their tasks in config.json, by which it is known.
_JINA, _TASKS = "custom_st.Transformer", {"lora_adaptations", "task_names"}
# torch has moved these classes between modules; the class names are stable.
_ACTIVATIONS = {f"torch.nn.{name.rsplit('.', 1)[-1]}": ours for ours, name in TORCH_NAMES.items()}


@dataclass(frozen=True)
class Pipeline:
    """How a checkpoint embeds a sentence.

    Attributes:
      transformer: folder of the transformer, or of the static embeddings, and the tokenizer.
      module: the first module, Transformer or StaticEmbedding.
      pooling: poolings of ``lsar_jax.models.pooling.POOLINGS`` joined by ``+``; empty if the folder does not say.
      projection: matrix that comes after the pooling and before the other layers, if any.
      after: kind and folder of each module after the pooling.
      truncate_dim: number of dimensions that are kept at the end; None for all.
      include_prompt: whether the tokens of a prompt are pooled.
      prompts: prompts by name.
      prompt: the default prompt.
      applied: ``Transform.applied`` of the transforms in the layers after the pooling.
      problem: description of the first unsupported part; empty if everything is supported.
    """

    transformer: Path
    module: str = "Transformer"
    pooling: str = ""
    projection: Tensor | None = None
    after: tuple[tuple[str, Path], ...] = ()
    truncate_dim: int | None = None
    include_prompt: bool = True
    prompts: Mapping[str, str] = field(default_factory=dict)
    prompt: str = ""
    applied: tuple[str, ...] = ()
    problem: str = ""

    @property
    def name(self) -> str:
        """The pooling and the layers after it, as in ``EncoderSpec.pooling``."""
        cut = [] if self.truncate_dim is None else ["truncate"]
        first = [self.pooling] if self.projection is None else [self.pooling, "dense"]
        return "+".join([*first, *(_AFTER[kind][0] for kind, _ in self.after), *cut])

    def layers(self) -> list[Layer]:
        """Reads the layers after the pooling."""
        cut = [] if self.truncate_dim is None else [Truncate(self.truncate_dim)]
        first: list[Layer] = []
        if self.projection is not None:
            matrix = read_tensor(self.projection, f"the projection in {self.transformer}")
            first.append(Dense(matrix, np.zeros(len(matrix), np.float32), "identity"))
        return [*first, *(_AFTER[kind][1](folder) for kind, folder in self.after), *cut]


def read_pipeline(folder: Path) -> Pipeline:
    """Returns the pipeline of a folder, which has only a transformer if there is no ``modules.json``.

    An unsupported module, or a ``modules.json`` that was lost, becomes the ``problem`` of the pipeline, because the
    transformer can be used without it.

    Raises:
      ValueError: a file is damaged, or a path leads out of the folder.
    """
    path = folder / "modules.json"
    if not path.is_file():
        traces = [path for name in _TRACES for path in sorted(folder.glob(name))]
        problem = f"{folder} has {traces[0].name}, but no modules.json, which says what it belongs to" if traces else ""
        path = folder / "config.json"
        static: dict[str, Any] = read_json(path, dict) if path.is_file() else {}
        normalized = static.get("model_type") == "model2vec" and static.get("normalize") is True
        return Pipeline(folder, after=(("Normalize", folder),) if normalized else (), problem=problem)
    modules = _modules(path)
    kinds = [kind.rsplit(".", 1)[-1] if kind.startswith("sentence_transformers.") else kind for kind, _ in modules]
    module = STATIC.module if kinds[:1] == [STATIC.module] else "Transformer"
    transformer = modules[0][1] if kinds[:1] == [module] else folder
    settings = folder / SENTENCE
    config: dict[str, Any] = read_json(settings, dict) if settings.is_file() else {}
    prompts, prompt, applied = _prompts(settings, config)
    pipeline = Pipeline(transformer, module, prompts=prompts, prompt=prompt, applied=applied)
    try:
        first = [module] if module == STATIC.module else ["Transformer", "Pooling"]
        start = len(first)
        if kinds[:start] != first or not {*_AFTER, "Dropout"} >= set(kinds[start:]):
            order = f"{' -> '.join(first)}, then any of {', '.join(_AFTER)}"
            raise Unsupported(f"{path}: {' -> '.join(kinds)} is not supported; supported modules are {order}")
        later = list(zip(kinds, (part for _, part in modules), strict=True))[start:]
        after = tuple((kind, part) for kind, part in later if kind != "Dropout")
        pooling, include_prompt = _pooling(modules[1][1] / "config.json") if module == "Transformer" else ("mean", True)
        check_keys(settings, config, SENTENCE)
        for kind, part in later:
            # Older versions wrote no config for Normalize.
            if kind in ("Normalize", "Dropout") and (part / "config.json").is_file():
                check_keys(part, read_json(part / "config.json", dict), kind)
        if module == "Transformer":
            check_text(transformer)
        if (cut := config.get("truncate_dim")) is not None:
            whole_number(f"{settings}: truncate_dim", cut, 1, 1 << 18, "the widths of embeddings")
        return replace(pipeline, pooling=pooling, after=after, truncate_dim=cut, include_prompt=include_prompt)
    except Unsupported as error:
        return replace(pipeline, problem=str(error))


def module_folders(folder: Path) -> list[Path]:
    """Returns the folders of the modules in ``modules.json``, other than ``folder`` itself; none without that file."""
    path = folder / "modules.json"
    return [part for _, part in _modules(path) if part != folder] if path.is_file() else []


def _read_dense(folder: Path) -> Dense:
    config = read_json(folder / "config.json", dict)
    name = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    name = f"torch.nn.{name.rsplit('.', 1)[-1]}" if name.startswith("torch.nn.") else name
    check_choice(f"{folder}: activation_function", name, _ACTIVATIONS)
    check_keys(folder, config, "Dense")
    shape = (config.get("out_features"), config.get("in_features"))
    shapes = {"linear.weight": shape} | ({"linear.bias": shape[:1]} if config.get("bias", True) else {})
    values = _weights(folder, shapes)
    weight = values["linear.weight"]
    return Dense(weight, values.get("linear.bias", np.zeros(len(weight), np.float32)), _ACTIVATIONS[name])


def _read_norm(folder: Path) -> LayerNorm:
    config = read_json(folder / "config.json", dict)
    check_keys(folder, config, "LayerNorm")
    shape = (config.get("dimension"),)
    return LayerNorm(*_weights(folder, {"norm.weight": shape, "norm.bias": shape}).values())


# The modules that may come after the pooling, what they are called in ``EncoderSpec.pooling``, and how they are read.
_AFTER: Mapping[str, tuple[str, Callable[[Path], Layer]]] = {
    "Dense": ("dense", _read_dense),
    "LayerNorm": ("layer_norm", _read_norm),
    "Normalize": ("normalize", lambda folder: Normalize()),
    "st_quantize.FlexibleQuantizer": ("int8", lambda folder: Int8()),
}


def _weights(folder: Path, shapes: Mapping[str, tuple[Any, ...]]) -> dict[str, np.ndarray]:
    """Reads the weights of a module in the order of ``shapes``, which they must have."""
    tensors, _ = open_safetensors(folder, root=folder.parent)
    found = {name: tensor.shape for name, tensor in tensors.items()}
    if found != shapes:
        raise ValueError(f"{folder}: the weights have shapes {found}; by the config they should be {shapes}")
    return {name: read_tensor(tensors[name], f"{folder}: {name}") for name in shapes}


def _modules(path: Path) -> list[tuple[str, Path]]:
    with errors_of(f"{path} is not a list of modules with type and path", KeyError, TypeError):
        found = [(str(m["type"]), inside(path.parent, str(m["path"]), path)) for m in read_json(path, list)]
    for kind, part in found[:1]:
        if kind == _JINA and not _TASKS.isdisjoint(read_json(part / "config.json", dict)):
            # Version 5 also pools, the last token, and normalises.
            found = [("Transformer", part), *(found[1:] or [("Pooling", part), ("Normalize", part / "Normalize")])]
    return found


def _pooling(path: Path) -> tuple[str, bool]:
    """Returns the pooling, and whether the tokens of a prompt are pooled."""
    config = read_json(path, dict)
    if "task_names" in config:
        return "last", True
    check_keys(path, config, "Pooling")
    flags = [name for name, flag in MODES.values() if config.get(f"pooling_mode_{flag}")]
    modes = config.get("pooling_mode", flags or ["mean"])
    modes = modes if isinstance(modes, list) else [modes]
    ours = {theirs: name for name, (theirs, _) in MODES.items()}
    if not modes or not {*map(str, modes)} <= ours.keys():
        named = " and ".join(map(str, modes)) or "without a mode"
        raise Unsupported(f"{path}: the pooling {named} is not supported")
    include = config.get("include_prompt", True)
    check_flags(**{f"{path}: include_prompt": include})
    return "+".join(ours[mode] for mode in modes), include


def _prompts(path: Path, config: Mapping[str, Any]) -> tuple[dict[str, str], str, tuple[str, ...]]:
    prompts, name = config.get("prompts") or {}, config.get("default_prompt_name")
    texts = prompts.values() if isinstance(prompts, dict) else [None]
    if not all(isinstance(text, str) and len(text) <= LONGEST_PROMPT for text in texts):
        raise ValueError(
            f"{path}: prompts is {prompts!r:.200}; it must map names to strings of at most {LONGEST_PROMPT} characters"
        )
    if name is not None:
        check_choice(f"{path}: default_prompt_name", name, prompts)
    return prompts, "" if name is None else prompts[name], tuple(map(str, config.get(APPLIED, ())))
