"""The code on a page: how the method that it shows is fitted, and how it is loaded and used."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lsar_jax.options.encoder import EncoderOptions

__all__ = ["Usage", "opening_code"]


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


def opening_code(options: EncoderOptions, prompt: str) -> str:
    """Returns Python that loads an encoder at ``{layer}`` with a prompt, as ``options.open`` does."""
    names = ("revision", "pooling", "final_norm", "dtype")
    given = {name: getattr(options, name) for name in names if getattr(options, name) not in (None, False, "float32")}
    arguments = "".join(f", {name}={value!r}" for name, value in given.items())
    opened = f"lj.load_encoder({options.encoder!r}, layer={{layer}}{arguments})"
    return f"{opened}.with_prompt({prompt!r})" if prompt or options.prompt is not None else opened
