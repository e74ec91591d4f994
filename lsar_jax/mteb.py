"""Turns an encoder into a model for MTEB, the benchmark of text embeddings.

Muennighoff, Tazi, Magne and Reimers, "MTEB: Massive Text Embedding Benchmark", EACL 2023. The protocol follows
the package ``mteb`` from 2.0 on.

A transform, tokenizer or embedding that depends on the language gets it from the transform's identifier or from the
task: a subset in one language determines it, and so does a column of a task of parallel texts (Flores, NTREX, IN22); a
subset of pairs, such as ``de-en``, does not.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np
from flax import nnx
from jaxtyping import Float

from lsar_jax.arrays import digest
from lsar_jax.encoders.sentence_encoder import SentenceEncoder
from lsar_jax.extras import import_extra
from lsar_jax.languages import AUTO

__all__ = ["MtebEncoder"]


class MtebEncoder:
    """A model for ``mteb.evaluate``: ``mteb.evaluate(MtebEncoder(encoder), tasks)``.

    Its ``mteb_model_meta`` has the layer, pooling and transform in its name, and in its ``experiment_kwargs`` all else
    that distinguishes two results, so that mteb's cache does not mix transforms that were fitted on different text.

    Args:
      encoder: the encoder, with its transform, if any.
      prompts: prompts by the name of a task, its type or the side (``query``, ``document``), or by name or type with a
        side, such as ``Retrieval-query``; by default, the checkpoint's own. The most specific is used, or the
        checkpoint's default if none matches. A prompt named ``passage`` also serves as ``document``.
      language: language of all text, a code or ``"auto"``. By default, if something depends on the language, the
        transform's identifier detects it or mteb provides it.

    Raises:
      ImportError: mteb is not installed.
      ValueError: the encoder does not know or does not use the language, or has no identifier for ``"auto"``.

    Example:
      >>> from lsar_jax.mteb import MtebEncoder
      >>> encoder = lj.load_encoder("bundled", layer=2)
      >>> import mteb  # doctest: +SKIP
      >>> scores = mteb.evaluate(MtebEncoder(encoder), mteb.get_tasks(["STS17"]))  # doctest: +SKIP
    """

    def __init__(
        self, encoder: SentenceEncoder, *, prompts: Mapping[str, str] | None = None, language: str | None = None
    ) -> None:
        if language is not None:
            # Encodes no text: only checks the language now, instead of when the first task is loaded.
            encoder.encode([], language=language)
        self.encoder = encoder
        self.prompts = dict(encoder.prompts if prompts is None else prompts)
        if "passage" in self.prompts:
            self.prompts.setdefault("document", self.prompts["passage"])
        self.language = language
        self.mteb_model_meta = _meta(encoder, self.prompts, prompts is not None, language)

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
    ) -> Float[np.ndarray, "sentence dim"]:
        """Returns the embeddings of all texts of ``inputs``, ``[sentence, dim]``, in their order.

        Args:
          inputs: mteb's ``DataLoader``: batches with their strings under ``text``.
          task_metadata: mteb's ``TaskMetadata``, which determines the prompt and the language.
          hf_split: not used.
          hf_subset: the subset, which determines the language.
          prompt_type: mteb's ``PromptType``, or None for a task with symmetric sides.
          batch_size: not used, because the encoder makes its own batches.
          show_progress_bar: as ``show_progress`` of ``SentenceEncoder.encode``.

        Raises:
          ValueError: the language is needed, but the subset does not determine it or the encoder does not know it.
        """
        vectors = self.encoder.encode(
            (text for batch in inputs for text in batch["text"]),
            language=self._language(task_metadata, hf_subset),
            prompt=self._prompt(task_metadata, prompt_type),
            show_progress=show_progress_bar,
        )
        return np.asarray(vectors)

    def similarity(
        self, embeddings1: Float[Any, "*query dim"], embeddings2: Float[Any, "*candidate dim"]
    ) -> Float[Any, "query candidate"]:
        """Returns the cosines of all pairs as a torch tensor, as mteb expects."""
        from mteb.similarity_functions import cos_sim

        return cos_sim(embeddings1, embeddings2)

    def similarity_pairwise(
        self, embeddings1: Float[Any, "pair dim"], embeddings2: Float[Any, "pair dim"]
    ) -> Float[Any, " pair"]:
        """Returns the cosine of each row with the same row of the other, as a torch tensor."""
        from mteb.similarity_functions import pairwise_cos_sim

        return pairwise_cos_sim(embeddings1, embeddings2)

    def _prompt(self, task: Any, side: Any) -> str | None:
        """The first prompt in mteb's order of names; None for the checkpoint's default."""
        sides = [] if side is None else [side.value]
        names = [f"{name}{end}" for name in (task.name, task.type) for end in (*(f"-{side}" for side in sides), "")]
        return next((self.prompts[name] for name in (*names, *sides) if name in self.prompts), None)

    def _language(self, task: Any, subset: str) -> str | None:
        transform = self.encoder.transform
        if self.language is not None:
            return self.language
        depends = self.encoder.needs_language or (transform is not None and transform.languages is not None)
        if not depends and not self.encoder.tokenizer.uses_language:
            return None
        # Used for all tasks, even if mteb knows the language, so that all results in a table are of one method.
        if transform is not None and transform.identifier is not None and not self.encoder.needs_language:
            return AUTO
        languages = _subset_languages(task.hf_subsets_to_langscripts, subset)
        if len(languages) == 1:
            return languages[0]
        if depends:
            what = self.encoder.spec.id if self.encoder.needs_language else self.encoder.spec.transform
            raise ValueError(
                f"{what} depends on the language, but the subset {subset!r} of {task.name} does not determine that of "
                f"a sentence ({', '.join(languages)}); use a shared transform, one with an identifier, tasks in one "
                "language or with parallel columns, or MtebEncoder(..., language=...)"
            )
        # A tokenizer also works without the language, though less well.
        return None


def _subset_languages(languages: Mapping[str, list[str]], subset: str) -> list[str]:
    """The languages that a sentence of ``subset`` may have."""
    task_languages = sorted({code for codes in languages.values() for code in codes})
    # For a task of parallel texts, mteb encodes each column once, and passes the column's name as the subset.
    column = subset.replace("_", "-")
    if subset not in languages and column in task_languages:
        return [column]
    return sorted(set(languages.get(subset, task_languages)))


def _meta(encoder: SentenceEncoder, prompts: Mapping[str, str], given: bool, language: str | None) -> Any:
    """The ``ModelMeta`` of an encoder; fields that are not known are None."""
    model_meta = import_extra("mteb.models", "mteb", "MtebEncoder", "mteb").ModelMeta
    spec = encoder.spec
    named = "_".join(filter(None, (spec.id, f"layer{spec.layer}", spec.pooling, spec.transform)))
    weights = jax.tree.leaves((nnx.state(encoder.model, nnx.Param), encoder.projection))
    # The name of a transform does not distinguish two fits of it.
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(encoder.transform)]
    # The checkpoint's revision covers its named prompts; whatever it does not cover is listed here.
    settings = {
        "dtype": None if spec.dtype == "float32" else spec.dtype,
        "language": language,
        "prompt": encoder.prompt or None,
        "prompts": dict(sorted(prompts.items())) if given else None,
        "transform": digest(*spec.digests, *arrays) if arrays else None,
    }
    fields = {
        # mteb requires exactly one slash, and names a folder after it.
        "name": "lsar_jax/" + named.replace("/", "-"),
        "revision": spec.revision,
        "n_parameters": sum(part.size for part in weights),
        "memory_usage_mb": sum(part.nbytes for part in weights) / 2**20,
        "max_tokens": encoder.tokenizer.max_length,
        "embed_dim": encoder.dim,
        "framework": ["JAX"],
        "similarity_fn_name": "cosine",
        "use_instructions": bool(prompts or encoder.prompt),
        # Only Hub ids have a slash.
        "adapted_from": spec.id if "/" in spec.id else None,
        "experiment_kwargs": {name: value for name, value in settings.items() if value is not None} or None,
    }
    required = [name for name, field in model_meta.model_fields.items() if field.is_required()]
    return model_meta(**(dict.fromkeys(required) | fields))
