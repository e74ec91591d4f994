"""The page kit: pages that load nothing, from the templates, the style sheet and the script in ``templates``."""

import base64
import json
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any
from unicodedata import bidirectional

import numpy as np

from lsar_jax.extras import import_extra

__all__ = ["packed", "render"]

# Characters of a sentence that are shown.
_LONGEST = 200


def render(template: str, **values: Any) -> str:
    """Returns a page; text in ``values`` is escaped.

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
        loader=jinja2.PackageLoader("lsar_jax.report"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip

    environment.filters |= {
        "decimal": lambda value: f"{round(value, 1) + 0.0:.1f}",  # zero without a sign
        "direction": _direction,
        "json": _json,
        "shortened": lambda text: text if len(text) <= _LONGEST else f"{text[:_LONGEST].rstrip()}…",
    }
    return environment


def _json(value: Mapping[str, Any]) -> str:
    """JSON that cannot end the script it stands in."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _direction(text: str) -> str:
    """The direction of most letters; dir=auto would take the first letter's, which may be of a foreign name."""
    of = [bidirectional(letter) for letter in text]
    return "rtl" if of.count("R") + of.count("AL") > of.count("L") else "ltr"
