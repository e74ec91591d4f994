"""XQuAD-R's questions and answers: the reader, and the picture of one question."""

from unittest.mock import Mock

import numpy as np
import pytest

from eval.data.xquad import XQUAD_R, read_xquad
from eval.task import Panel, Score, Setting
from eval.tasks import answers as tasks
from eval.tasks.answers import answers
from lsar_jax import EncoderSpec
from lsar_jax.measures.compared_methods import Method
from tests.eval.test_lareqa import write_letters
from tests.eval.test_tasks import is_png
from tests.reference import unit

SETTING = Setting(EncoderSpec("tiny", "0", 2, "mean", "float32"), True, XQUAD_R, ())


def cosines(x, y):
    """The cosines of all pairs of rows in float64, by dimension, ``[n, m, dim]``."""
    return unit(x)[:, None] * unit(y)


def recorded(monkeypatch, place, name):
    """Replaces a function that draws by one that draws too; returns its calls, each of arguments and options."""
    keeping = Mock(wraps=getattr(place, name))
    monkeypatch.setattr(place, name, keeping)
    return keeping.call_args_list


def test_one_question(tmp_path, monkeypatch, rng):
    shown = ("en", "th", "zh")
    monkeypatch.setattr("eval.tasks.answers._QUESTIONS", 3)
    calls = recorded(monkeypatch, tasks, "draw_answers")
    write_letters(tmp_path / "xquad", rng, XQUAD_R)
    task = answers(tmp_path / "xquad", question=4)
    [texts] = task.parts
    # Far from the origin and of different lengths: a dot product of raw embeddings, in their plane.
    x = {key: 3 + rng.normal(0, rng.uniform(1, 9, (len(of), 1)), (len(of), 6)) for key, of in texts.items()}
    x = {key: rows.astype(np.float32) for key, rows in x.items()}
    found = [s for name in ("lsar", "cbie", "original") for s in task.scores(x, Method(name, {}, None), SETTING)]
    task.draw([], dict(item for item in found if isinstance(item, Panel)), tmp_path)
    assert is_png(tmp_path / "answers.png")
    [((panels, candidate_codes, codes, title, _), _)] = calls
    assert list(panels) == [f"layer 2, {name}" for name in ("original", "lsar")]
    plane = panels["layer 2, lsar"]
    questions = read_xquad(tmp_path / "xquad")
    # The English question alone, and all candidates of the shown languages.
    assert texts["asked", "en"] == [questions["en"].questions[4]] == [title.split("\n")[0]]
    assert [len(x["c", code]) for code in ("ar", "th")] == [3, 8]
    # Without the candidates after the last answer to a question of the pool.
    small = tasks._scores(dict.fromkeys(XQUAD_R, range(3)), {key: rows[:3] for key, rows in x.items()})
    assert [item.value for item in found if isinstance(item, Score)][:2] == [score.value for score in small]
    assert (tuple(codes), candidate_codes) == (shown, [code for code in shown for _ in range(8)])
    candidates = np.concatenate([x["c", code] for code in shown]).astype(float)
    np.testing.assert_array_equal(np.argsort(plane.ranks), np.argsort(-candidates @ x["asked", "en"][0]))
    assert plane.ranks.min() == 1
    rows = np.concatenate([candidates, x["asked", "en"]])
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)
    points = np.concatenate([plane.candidates, plane.question[None]]).astype(float)
    np.testing.assert_allclose(points.T @ points, np.diag(values[:2] ** 2), rtol=1e-4, atol=1e-3 * values[0])
    assert plane.answers.tolist() == [8 * n + questions[code].answers[4] for n, code in enumerate(shown)]


def test_refusals(tmp_path, rng):
    write_letters(tmp_path / "xquad", rng, XQUAD_R)
    with pytest.raises(ValueError, match="--question is 6; give 0 to 5"):
        answers(tmp_path / "xquad", question=6)
