"""The page kit: pages that load nothing, from the templates, the style sheet and the script in ``templates``.

With the code on them: how a method that a page shows is fitted, and how it is loaded and used.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from unicodedata import bidirectional

import numpy as np

from lsar_jax.corpora.text_rules import shortened
from lsar_jax.encoders import SentenceEncoder
from lsar_jax.extras import import_extra
from lsar_jax.options.encoder import EncoderOptions

__all__ = ["Usage", "packed", "render", "usage_of"]

# Characters of a sentence that are shown.
_LONGEST = 200


@dataclass(frozen=True)
class Usage:
    """How the vectors of a page were made, for the code on it.

    In all of its texts, ``{layer}`` stands for the layer, and ``{language}`` for the code of a language.

    Attributes:
      opening: Python that loads the encoder; empty for vectors of another model.
      encoding: further arguments of its ``encode``, such as ``max_length=128``.
      fit_options: options with which ``lsar-jax fit`` reads the same sentences; empty for Python in place of a command.
      reading: that Python, which makes ``x`` from text, and ``encoder`` if there is an ``opening``.
    """

    opening: str = ""
    encoding: str = ""
    fit_options: str = ""
    reading: str = "import lsar_jax as lj\n\n# x as given to lj.explore"

    def fitting(self, name: str, options: Mapping[str, Any], layer: str) -> str:
        """The command or the Python that fits a method and saves it."""
        if self.fit_options:
            words = [f"--{key} {value}" for key, value in [*options.items(), *[("layer", layer)] * bool(layer)]]
            return " ".join(["lsar-jax fit", name, f"{name}.safetensors", *words, self.fit_options])
        given = "".join(f", {key}={value}" for key, value in options.items())
        source = ", source=encoder.spec" * bool(self.opening)
        return (
            f'{self.reading}\ntransform = lj.transforms.methods.METHODS["{name}"](x{given}{source})\n'
            f'transform.save("{name}.safetensors")'
        )

    def loading(self, file: str, by_language: bool) -> str:
        """The Python that transforms sentences, or vectors, by a transform in a file."""
        loaded = f"transform = lj.Transform.load({file!r})\n"
        if not self.opening:
            argument = ", '{language}'" * by_language
            vectors = f'vectors = transform(np.load("vectors.npy"){argument})  # yours, a row for each sentence'
            return f"import numpy as np\n\nimport lsar_jax as lj\n\n{loaded}{vectors}"
        language = ", language='{language}'" * (by_language and "{language}" not in self.encoding)
        return (
            f"import lsar_jax as lj\n\n{loaded}encoder = {self.opening}.with_transform(transform)\n"
            'sentences = ["..."]  # yours\n'
            f"vectors = encoder.encode(sentences, normalize=True, {self.encoding}{language})"
            "  # for an index of inner products"
        )


def usage_of(options: EncoderOptions, encoder: SentenceEncoder | None) -> Usage:
    """Returns how a command made the vectors of a page: by an encoder that ``options`` open, or another model's."""
    if encoder is None:
        return Usage()
    names = ("revision", "pooling", "final_norm", "dtype")
    given = {name: getattr(options, name) for name in names if getattr(options, name) not in (None, False, "float32")}
    arguments = "".join(f", {name}={value!r}" for name, value in given.items())
    opening = f"lj.load_encoder({options.encoder!r}, layer={{layer}}{arguments})"
    if (prompt := encoder.spec.prompt or "") or options.prompt is not None:
        opening += f".with_prompt({prompt!r})"
    return Usage(opening, f"max_length={options.max_length}" + ", language='{language}'" * encoder.uses_language)


def render(template: str, **values: Any) -> str:
    """Returns a page, or lines of text (``.txt``); on a page, text in ``values`` is escaped.

    Lone surrogates, which are the bytes of a path that are not UTF-8, are written as escapes of JSON.
    """
    page = _environment().get_template(template).render(values)
    return page.encode(errors="backslashreplace").decode()


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
