"""The page kit: pages that load nothing, from the templates, the style sheet and the script in ``templates``.

With the code on them: how a method that a page shows is fitted, and how it is loaded and used.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any
from unicodedata import bidirectional

import numpy as np

from lsar_jax.checkpoints.export import check_exportable
from lsar_jax.corpora.text_rules import shortened
from lsar_jax.encoders import SentenceEncoder
from lsar_jax.extras import import_extra
from lsar_jax.options.encoder import EncoderOptions

__all__ = ["EXPLORER", "REPORT", "RESULTS", "TRANSFORM", "Usage", "filled", "packed", "render", "usage_of"]

# Files of a report, and that of an explorer beside it, by which the two pages find each other.
REPORT, TRANSFORM, RESULTS, EXPLORER = "report.html", "transform.safetensors", "results.jsonl", "explorer.html"

# Characters of a sentence that are shown.
_LONGEST = 200
# The tabs of code that searches with a transform.
_LIBRARIES = ("faiss", "Qdrant", "LanceDB", "sentence-transformers", "NumPy")


@dataclass(frozen=True)
class Usage:
    """How the vectors of a page were made, for the code on it.

    In all of its texts, ``{layer}`` stands for the layer, and ``{language}`` for the code of a language.

    Attributes:
      opening: Python that loads the encoder; empty for vectors of another model.
      encoding: further arguments of its ``encode``, such as ``max_length=128``.
      fit_options: options with which ``lsar-jax fit`` reads the same sentences; empty for Python in place of a command.
      reading: that Python, which makes ``x`` from text, and ``encoder`` if there is an ``opening``.
      refused: why the encoder cannot be exported for sentence-transformers; empty if it can be.
    """

    opening: str = ""
    encoding: str = ""
    fit_options: str = ""
    reading: str = "import lsar_jax as lj\n\n# x as given to lj.explore"
    refused: str = ""

    def fitting(self, name: str, options: Mapping[str, Any], layer: str) -> str:
        """The command or the Python that fits a method and saves it."""
        return filled("fitting.txt", usage=self, name=name, options=options, layer=layer).strip()

    def loading(self, file: str, by_language: bool, one_map: bool, languages: Sequence[str]) -> dict[str, str]:
        """Library -> the Python that transforms sentences, or vectors, by a transform in a file, and searches them."""
        given = {"usage": self, "file": file, "by_language": by_language, "one_map": one_map, "languages": languages}
        return {name: filled("loading.txt", library=name, **given).strip() for name in _LIBRARIES}


def usage_of(options: EncoderOptions, encoder: SentenceEncoder | None, layer: int) -> Usage:
    """Returns how a command made the vectors of a page: by an encoder that ``options`` open, or another model's.

    Whether the encoder can be exported is found out for ``layer``.
    """
    if encoder is None:
        return Usage()
    names = ("revision", "adapter", "pooling", "final_norm", "dtype")
    given = {name: getattr(options, name) for name in names if getattr(options, name) not in (None, False, "float32")}
    arguments = "".join(f", {name}={value!r}" for name, value in given.items())
    opening = f"lj.load_encoder({options.encoder!r}, layer={{layer}}{arguments})"
    if (prompt := encoder.spec.prompt or "") or options.prompt is not None:
        opening += f".with_prompt({prompt!r})"
    usage = Usage(opening, f"max_length={options.max_length}" + ", language='{language}'" * encoder.uses_language)
    try:
        check_exportable(encoder, layer)
    except ValueError as error:
        return replace(usage, refused=str(error))
    return usage


def render(template: str, **values: Any) -> str:
    """Returns a page, or lines of text (``.txt``); on a page, text in ``values`` is escaped.

    Lone surrogates, which are the bytes of a path that are not UTF-8, are written as escapes of JSON.
    """
    return filled(template, **values).encode(errors="backslashreplace").decode()


def filled(template: str, **values: Any) -> str:
    """Returns a template with its values, also with lone surrogates: code, which has a place on a page."""
    text: str = _environment().get_template(template).render(values)
    return text


def packed(values: np.ndarray) -> str:
    """Returns whole numbers as 16 bits, compressed; the page's script unpacks them."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(values, "<i2").tobytes(), 9)).decode()


@cache
def _environment() -> Any:
    jinja2 = import_extra("jinja2", "report", "a page")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lsar_jax.report"), autoescape=jinja2.select_autoescape(),
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip

    environment.filters |= {
        "decimal": lambda value: f"{round(value, 1) + 0.0:.1f}",  # zero without a sign
        "direction": _direction,
        # It cannot end the script that it stands in.
        "json": lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
        "shortened": partial(shortened, most=_LONGEST),
    }
    return environment


def _direction(text: str) -> str:
    """The direction of most letters; dir=auto would take the first letter's, which may be of a foreign name."""
    of = [bidirectional(letter) for letter in text]
    return "rtl" if of.count("R") + of.count("AL") > of.count("L") else "ltr"
