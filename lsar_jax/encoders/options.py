"""The options of encoding, shared by all methods that take them, and their checks."""

import re
from collections.abc import Iterable, KeysView, Mapping, Set
from dataclasses import dataclass
from typing import Any, TypedDict

from lsar_jax.checkpoints.sentence_transformers import LONGEST_PROMPT
from lsar_jax.checks import check_flags, whole_number
from lsar_jax.encoders.progress import ShowProgress
from lsar_jax.languages import AUTO, check_given, own_name
from lsar_jax.mesh import check_process
from lsar_jax.spec import EncoderSpec
from lsar_jax.tokens.tokenizer import Tokenizer, check_sentences
from lsar_jax.transforms import Transform

__all__ = [
    "EncodeCall",
    "EncodeOptions",
    "StreamOptions",
    "check_length",
    "check_prompt",
    "check_transform",
    "encode_call",
    "language_rows",
    "ordered",
    "prompt_text",
    "prompt_tokens",
]


class StreamOptions(TypedDict, total=False):
    """Options of every method that encodes a stream of text; ``SentenceEncoder.encode`` explains them."""

    layers: Iterable[int] | None
    language: str | Iterable[str] | None
    prompt: str | None
    max_length: int | None
    token_budget: int | None
    show_progress: ShowProgress


class EncodeOptions(StreamOptions, total=False):
    """Options of the methods that return embeddings, besides ``output``."""

    normalize: bool


def ordered(sentences: str | Iterable[str]) -> Iterable[str]:
    """Returns the sentences, or the only one, as an ordered iterable; raises ValueError for anything else."""
    if isinstance(sentences, str):
        return [sentences]
    # The elements of a set come in another order in each process, and those of a mapping are its keys.
    unordered = isinstance(sentences, Mapping | Set) and not isinstance(sentences, KeysView)
    shape = tuple(getattr(sentences, "shape", (1,)))
    if isinstance(sentences, bytes) or unordered or not isinstance(sentences, Iterable) or len(shape) != 1:
        kind = f"{type(sentences).__name__}{f' of shape {shape}' if len(shape) != 1 else ''}"
        raise ValueError(f"sentences must be a str or an ordered iterable of str, not a {kind}")
    return sentences


@dataclass(frozen=True)
class EncodeCall:
    """The options of one call, checked and with their defaults; ``one_layer`` says that no ``layers`` were given."""

    layers: tuple[int, ...]
    one_layer: bool
    prompt: str
    max_length: int
    language: str | Iterable[str] | None = None
    normalize: bool = False
    token_budget: int | None = None
    show_progress: ShowProgress = False


def encode_call(encoder: Any, options: StreamOptions) -> EncodeCall:
    """Returns the options of a call of an encoder, checked; ValueErrors name the option and its limits."""
    check_process()
    given = {name: value for name, value in options.items() if name not in ("layers", "prompt", "max_length")}
    check_flags(normalize=given.get("normalize", False))
    given["language"] = check_given(options.get("language"))
    tokenizer, limit = encoder.tokenizer, check_length(options.get("max_length"), encoder.tokenizer)
    prompt = options.get("prompt")
    text = check_prompt(encoder.prompt if prompt is None else prompt_text(prompt, encoder.prompts), tokenizer, limit)
    layers = options.get("layers")
    return EncodeCall(_chosen_layers(layers, encoder), layers is None, text, limit, **given)  # type: ignore[arg-type]


def _chosen_layers(layers: Iterable[int] | None, encoder: Any) -> tuple[int, ...]:
    """Returns the layers to encode, by default the spec's alone; raises ValueError for others."""
    layer, widths = encoder.spec.layer, encoder.model.config.widths
    if layers is None:
        return (layer,)
    several = () if isinstance(layers, str) or not isinstance(layers, Iterable) else tuple(layers)
    if not several:
        raise ValueError(f"layers is {layers!r}; give one or more, such as layers=({layer},)")
    chosen = tuple(whole_number("a layer", number, 0, len(widths) - 1, "the loaded layers") for number in several)
    if set(chosen) != {layer} and (encoder.transform is not None or encoder.projection is not None):
        what = "transform" if encoder.transform is not None else f"projection of {encoder.spec.pooling!r}"
        raise ValueError(
            f"the {what} belongs to layer {layer}, not to {chosen}; leave out layers, or load the encoder with "
            f"pooling={encoder.pooling!r}{' and without dim' * (encoder.spec.dim is not None)} to compare layers"
        )
    if len({widths[number] for number in chosen}) > 1:
        raise ValueError(f"layers {chosen} have widths {[widths[number] for number in chosen]}; encode each alone")
    return chosen


def check_length(max_length: int | None, tokenizer: Tokenizer) -> int:
    """Returns the maximum number of tokens per sentence, by default the checkpoint's; raises ValueError for others."""
    if max_length is None:
        return tokenizer.max_length
    # The special tokens and one token of text.
    least = sum(tokenizer.specials) + 1
    return whole_number("max_length", max_length, least, tokenizer.max_length, "the range of this checkpoint")


def language_rows(encoder: Any, language: str | None) -> tuple[int, ...]:
    """Returns the row of a language in the model's embeddings, if there are any, and in the tables of each step."""
    names, transform, id = encoder.languages, encoder.transform, encoder.spec.id
    if language is not None and not encoder.uses_language and transform is None:
        raise ValueError("language is given, but no transform, tokenizer or embedding of the encoder uses it; omit it")
    if language == AUTO:
        if transform is None or encoder.needs_language:
            raise ValueError(f"language is 'auto', which only transforms support; give the languages for {id}")
        if transform.languages is not None:
            transform.check_identifier()
        return (0,) * len(transform.steps)
    # The model's own names of languages may not be codes, which shared steps need not know.
    shared = transform is None or (encoder.needs_language and transform.languages is None)
    steps = () if transform is None else map(int, transform.language_ids(None if shared else language))
    if language is None and encoder.needs_language:
        choices = f"one of {', '.join(names)}" if names else "such as 'en'"
        raise ValueError(f"{id} embeds the language, or puts it before a sentence; give language=, {choices}")
    return (*(() if names is None else (names[own_name(language, names, id)],)), *steps)


def prompt_text(prompt: str, prompts: Mapping[str, str]) -> str:
    """Returns the text of a prompt, which is given by its name in ``prompts`` or as the text itself.

    One plain word is always a name: before a sentence, it would be part of the first word.

    Raises:
      ValueError: the prompt is a plain word that is not a name.
    """
    if prompt not in prompts and re.fullmatch(r"[A-Za-z0-9_-]+", prompt):
        names = f"those of this encoder are {', '.join(prompts)}" if prompts else "this encoder has none"
        raise ValueError(
            f"prompt {prompt!r:.60} is one word, which is read as the name of a prompt, and {names}; text before a "
            f"sentence ends in another sign, such as {prompt + ': '!r:.60}"
        )
    return prompts.get(prompt, prompt)


def check_prompt(prompt: str, tokenizer: Tokenizer, limit: int) -> str:
    """Returns the text of a prompt; raises ValueError if it leaves no room for other text in ``limit`` tokens."""
    if prompt:
        if len(prompt) > LONGEST_PROMPT:
            raise ValueError(f"the prompt has {len(prompt)} characters; at most {LONGEST_PROMPT} are accepted")
        check_sentences([prompt], what="prompt")
        if len(tokenizer([""], limit, [None], prompt)[0][0]) >= limit:
            raise ValueError(f"the prompt {prompt!r:.60} leaves no room in {limit} tokens; cut it or raise max_length")
    return prompt


def check_transform(
    transform: Transform, spec: EncoderSpec, dim: int, applied: Set[str], place: str, earlier: Transform | None = None
) -> None:
    """Raises ValueError unless a transform can be applied to embeddings.

    Args:
      transform: the transform.
      spec: the space of the embeddings, before ``earlier``.
      dim: their width.
      applied: ``Transform.applied`` of what was applied to them.
      place: what the embeddings are of, for errors.
      earlier: the transform that is applied before, if any.
    """
    if not transform.fits_after(spec, earlier):
        difference = (transform.source or spec).difference(spec)
        raise ValueError(f"the transform was fitted on other embeddings than those of {place}: {difference}")
    if transform.dim != dim:
        raise ValueError(f"the transform takes width {transform.dim}, but {place} has width {dim}")
    if applied & transform.applied:
        raise ValueError(f"{transform.name} is already applied to {place}; apply each fit once")


def prompt_tokens(prompt: str, tokenizer: Tokenizer) -> int:
    """Returns the number of tokens up to the end of ``prompt``, with the special tokens before it; 0 if it is empty."""
    # As sentence-transformers counts them; it pools those of a chat template.
    prompt = "" if getattr(tokenizer, "template", None) else prompt
    return len(tokenizer([prompt], tokenizer.max_length, [None])[0][0]) - tokenizer.specials.after if prompt else 0
