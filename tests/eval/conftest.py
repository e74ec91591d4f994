"""Figures of evaluations are drawn once, and small: each in full is a third of a second and more."""

import pytest

from eval.figures import style


@pytest.fixture(autouse=True, scope="module")
def small_figures():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "save_figure", lambda figure, path: figure.savefig(path, dpi=60))
        yield
