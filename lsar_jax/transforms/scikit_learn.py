"""Fits transforms as a step of a scikit-learn ``Pipeline``; needs scikit-learn, which nothing else here imports.

A transform that is already fitted needs no adapter: ``sklearn.preprocessing.FunctionTransformer(transform)`` is a step,
and with ``feature_names_out="one-to-one"`` also after ``set_output(transform="pandas")``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from lsar_jax.checks import check_choice
from lsar_jax.corpora.by_language import group_by
from lsar_jax.extras import import_extra
from lsar_jax.languages import check_codes, language_code
from lsar_jax.transforms import Transform
from lsar_jax.transforms.methods import METHODS

_base = import_extra("sklearn.base", "eval", "lsar_jax.transforms.scikit_learn", "scikit-learn")
_validation = import_extra("sklearn.utils.validation", "eval", "lsar_jax.transforms.scikit_learn", "scikit-learn")

__all__ = ["LanguageRemover"]


class LanguageRemover(_base.OneToOneFeatureMixin, _base.TransformerMixin, _base.BaseEstimator):
    """A step that removes the language from embeddings, for a scikit-learn ``Pipeline``.

    The languages of the rows are metadata, not ``y``, which is the target of a later step and is ignored here. Without
    scikit-learn's metadata routing, a pipeline passes them to ``fit`` alone (``languageremover__language=codes``);
    a method that needs the language of each row to transform it, such as ``center``, takes the routing.

    Args:
      method: name of the method: ``lsar``, ``center``, ``mean``, ``lir``, ``leace``, ``whitening`` and so on, as for
        ``lsar-jax fit``.
      options: options of its fit by name, such as ``{"rank": 3}``; by default none.

    Attributes:
      transform_: the fitted ``Transform``.
      n_features_in_: the width of the embeddings.

    Example:
      >>> from lsar_jax.transforms.scikit_learn import LanguageRemover
      >>> from sklearn.linear_model import LogisticRegression
      >>> from sklearn.pipeline import make_pipeline
      >>> rng = np.random.default_rng(0)
      >>> codes, topic = np.repeat(["de", "en"], 50), np.tile([0, 1], 50)
      >>> x = rng.normal(size=(100, 8)) + 5 * (codes == "de")[:, None] + 3 * topic[:, None] * np.eye(8)[0]
      >>> steps = make_pipeline(LanguageRemover(), LogisticRegression())
      >>> steps.fit(x, topic, languageremover__language=codes).score(x, topic) > 0.8
      True
    """

    def __init__(self, method: str = "lsar", options: Mapping[str, Any] | None = None) -> None:
        self.method = method
        self.options = options

    def fit(self, X: Any, y: Any = None, language: Iterable[str] | None = None) -> "LanguageRemover":
        """Fits the transform on embeddings ``[n, dim]`` with the code of each row's language.

        Raises:
          ValueError: the method is unknown, the languages are missing or not one for each row, or as for its fit.
        """
        check_choice("method", self.method, METHODS)
        x = _validation.validate_data(self, X, dtype=(np.float64, np.float32))
        codes = [] if language is None or isinstance(language, str) else check_codes(language)
        if len(codes) != len(x):
            raise ValueError(
                f"language is {language!r:.40}; give the code of each of the {len(x)} rows: fit(x, y, language=codes), "
                "or, to a pipeline, fit(x, y, languageremover__language=codes)"
            )
        rows = group_by(range(len(x)), lambda row: language_code(codes[row]))
        by_language = {code: x[chosen] for code, chosen in rows.items()}
        self.transform_: Transform = METHODS[self.method](by_language, **(self.options or {}))
        return self

    def transform(self, X: Any, language: str | Iterable[str] | None = None) -> Float[np.ndarray, "vector dim"]:
        """Returns the transformed embeddings ``[n, dim]`` in their dtype, computed in float32.

        Raises:
          ValueError: as for ``Transform``: the language is missing, for example.
        """
        _validation.check_is_fitted(self)
        x = _validation.validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        return np.asarray(self.transform_(x, language), x.dtype)

    def fit_transform(
        self, X: Any, y: Any = None, language: Iterable[str] | None = None
    ) -> Float[np.ndarray, "vector dim"] | Any:
        """Returns the embeddings that it is fitted on, transformed; arguments and errors are as in both methods."""
        return self.fit(X, y, language).transform(X, language)
