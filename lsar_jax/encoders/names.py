"""What users of sentence-transformers and transformers call by other names, and what to write here."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import jax
import numpy as np

from lsar_jax.encoders.options import EncodeOptions

__all__ = ["OtherNames", "check_names", "unexpected"]

# What to write instead of an option.
_OPTIONS = {
    "batch_size": "batches are as large as a budget of tokens allows; to change it, pass token_budget to encode",
    "cache_folder": "set the environment variable HF_HOME",
    "convert_to_numpy": 'pass output="numpy", which is the default, to encode',
    "convert_to_tensor": 'pass output="jax" to encode',
    "device": "all local devices are used; to choose some, pass mesh=lj.mesh.data_mesh(devices) to load_encoder",
    "max_seq_length": "pass max_length to encode",
    "model_kwargs": "pass dtype and param_dtype to load_encoder",
    "normalize_embeddings": "pass normalize to encode",
    "default_prompt_name": "call encoder.with_prompt(name)",
    "prompt_name": "pass prompt=name to encode",
    "precision": "pass dtype to load_encoder",
    "show_progress_bar": "pass show_progress to encode",
    "token": "set the environment variable HF_TOKEN",
    "torch_dtype": "pass dtype to load_encoder",
    "truncate_dim": "pass dim to load_encoder",
    "trust_remote_code": "code from a checkpoint is never run; leave it out",
}
# What to write instead of an attribute.
_SAVE = "call encoder.to_sentence_transformers(folder)"
_SIMILARITY = "call lj.retrieval.similarity(a, b), which takes the cosine unless metric='dot' is given"
_ALL_DEVICES = "encode uses all local devices; lj.embeddings.encode(encoder, files, out) is for large text"
_DIM = "read encoder.dim"
_LENGTH = "read encoder.tokenizer.max_length; to cut text earlier, pass max_length to encode"
_TRAIN = "python -m train.align trains encoders, by the losses of the papers only"
_ATTRIBUTES = {
    "config": "read encoder.model.config",
    "default_prompt_name": "read encoder.prompt; to change it, call encoder.with_prompt(name)",
    "device": "read encoder.mesh; to choose devices, pass mesh=lj.mesh.data_mesh(devices) to load_encoder",
    "dtype": "read encoder.spec.dtype; to change it, pass dtype to load_encoder",
    "encode_multi_process": _ALL_DEVICES,
    "eval": "an encoder has no other mode; leave it out",
    "fit": _TRAIN,
    "get_embedding_dimension": _DIM,
    "get_max_seq_length": _LENGTH,
    "get_sentence_embedding_dimension": _DIM,
    "half": 'pass dtype="bfloat16" to load_encoder',
    "max_seq_length": _LENGTH,
    "save": _SAVE,
    "save_pretrained": _SAVE,
    "similarity": _SIMILARITY,
    "similarity_fn_name": _SIMILARITY,
    "similarity_pairwise": "encode with normalize=True; the cosines of pairs are then (a * b).sum(axis=1)",
    "start_multi_process_pool": _ALL_DEVICES,
    "to": "to choose devices or the dtype, pass mesh or dtype to load_encoder",
    "tokenize": "call encoder.tokenizer([text], max_length), which returns ids, and how many texts were cut",
    "truncate_dim": "read encoder.spec.dim; to cut vectors, pass dim to load_encoder",
}


def check_names(method: str, options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raises TypeError if an option of ``method`` is not ``known``."""
    for name in options:
        if name not in known:
            raise unexpected(method, name, known)


def unexpected(method: str, name: str, known: Iterable[str]) -> TypeError:
    """Returns the error for an option that a method does not have; it says what to write instead, if that is known."""
    instead = _OPTIONS.get(name, f"its options are {', '.join(known)}")
    return TypeError(f"{method}() got an unexpected option {name!r}; {instead}")


class OtherNames:
    """What a ``SentenceEncoder`` has of sentence-transformers; other attributes of it say what to write instead."""

    # Unseen by type checkers, which would take any attribute to exist.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            _check_attribute(self, name)
            # Raises the error of a property that itself lacks something, or Python's own.
            return object.__getattribute__(self, name)

        def __setattr__(self, name: str, value: Any) -> None:
            _check_attribute(self, name)  # it would have no effect
            object.__setattr__(self, name, value)

    @overload
    def encode_query(
        self, sentences: str | Iterable[str], *, output: Literal["numpy"] = "numpy", **options: Unpack[EncodeOptions]
    ) -> np.ndarray: ...

    @overload
    def encode_query(
        self, sentences: str | Iterable[str], *, output: Literal["jax"], **options: Unpack[EncodeOptions]
    ) -> jax.Array: ...

    def encode_query(
        self,
        sentences: str | Iterable[str],
        *,
        output: Literal["numpy", "jax"] = "numpy",
        **options: Unpack[EncodeOptions],
    ) -> np.ndarray | jax.Array:
        """Returns ``encode(sentences, prompt="query")``, or without that prompt if it is not one of ``prompts``.

        Another ``prompt`` may be given; options and errors are those of ``encode``.
        """
        return _encode(self, ("query",), sentences, options, output)

    @overload
    def encode_document(
        self, sentences: str | Iterable[str], *, output: Literal["numpy"] = "numpy", **options: Unpack[EncodeOptions]
    ) -> np.ndarray: ...

    @overload
    def encode_document(
        self, sentences: str | Iterable[str], *, output: Literal["jax"], **options: Unpack[EncodeOptions]
    ) -> jax.Array: ...

    def encode_document(
        self,
        sentences: str | Iterable[str],
        *,
        output: Literal["numpy", "jax"] = "numpy",
        **options: Unpack[EncodeOptions],
    ) -> np.ndarray | jax.Array:
        """Returns ``encode`` with the first prompt named ``document``, ``passage`` or ``corpus``, or without one.

        Another ``prompt`` may be given; options and errors are those of ``encode``.
        """
        return _encode(self, ("document", "passage", "corpus"), sentences, options, output)


def _check_attribute(encoder: Any, name: str) -> None:
    if name in _ATTRIBUTES:
        raise AttributeError(f"a SentenceEncoder has no {name!r}; {_ATTRIBUTES[name]}", name=name, obj=encoder)


def _encode(encoder: Any, names: Iterable[str], sentences: Any, options: EncodeOptions, output: str) -> Any:
    prompt = next((name for name in names if name in encoder.prompts), None)
    return encoder.encode(sentences, output=output, **{"prompt": prompt, **options})
