"""XQuAD-R's questions and answers: the reader, and the picture of one question."""

from pathlib import Path

import numpy as np
import pytest

from eval.data.xquad import XQUAD_R, read_xquad
from eval.task import Panel, Setting
from eval.tasks import answers as tasks
from eval.tasks.answers import answers
from lsar_jax import EncoderSpec
from lsar_jax.measures.compared_methods import Method
from tests.eval.test_lareqa import write_letters
from tests.eval.test_tasks import is_png

SETTING = Setting(EncoderSpec("tiny", "0", 2, "mean", "float32"), True, XQUAD_R, (), "udhr all")


def cosines(x, y):
    """The cosines of all pairs of rows in float64, by dimension, ``[n, m, dim]``."""
    x, y = (np.asarray(a, np.float64) / np.linalg.norm(a, axis=1, keepdims=True) for a in (x, y))
    return x[:, None] * y[None]


def recorded(monkeypatch, place, name):
    """Replaces a function that draws by one that keeps its arguments and draws too."""
    calls, draw = [], getattr(place, name)

    def keep(*arguments):
        calls.append(arguments)
        draw(*arguments)

    monkeypatch.setattr(place, name, keep)
    return calls


@pytest.mark.parametrize("shown", [("en", "th", "zh"), ("zh", "th")])
def test_one_question(tmp_path, monkeypatch, rng, shown):
    monkeypatch.setattr("eval.tasks.answers._QUESTIONS", 5)
    calls = recorded(monkeypatch, tasks, "draw_answers")
    write_letters(tmp_path / "xquad", rng, XQUAD_R)
    task = answers(tmp_path / "xquad", shown)
    [texts] = task.parts
    x = {key: rng.standard_normal((len(text), 6)).astype(np.float32) for key, text in texts.items()}
    found = [
        item for name in ("lsar", "cbie", "lir", "original") for item in task.scores(x, Method(name, {}, None), SETTING)
    ]
    task.draw([], dict(item for item in found if isinstance(item, Panel)), tmp_path)
    assert is_png(tmp_path / "answers.png")
    [(panels, candidate_codes, codes, asked, *_)] = calls
    assert list(panels) == [f"layer 2, {name}" for name in ("original", "lir", "lsar")]
    assert (tuple(codes), asked) == (shown, "en" if "en" in shown else shown[0])
    plane = panels["layer 2, lir"]
    candidates = np.concatenate([x["c", code] for code in shown])
    likeness = cosines(x["q", asked][:1], candidates).sum(axis=-1)[0]
    np.testing.assert_array_equal(np.argsort(plane.ranks), np.argsort(-likeness))
    assert plane.ranks.min() == 1
    assert [candidate_codes[place] for place in plane.answers] == list(codes)
    starts = {code: candidate_codes.index(code) for code in codes}
    questions = read_xquad(tmp_path / "xquad")
    assert [place - starts[code] for code, place in zip(codes, plane.answers, strict=True)] == [
        questions[code].answers[0] for code in codes
    ]


def test_a_language_that_is_not_in_xquad_r():
    with pytest.raises(ValueError, match="--shown is 'en fr'; give some of "):
        answers(Path("nowhere"), ("en", "fr"))
