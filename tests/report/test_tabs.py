"""The code in the tabs of a report, as it stands, finds what ``nearest`` finds; ``test_browser`` runs an explorer's."""

import html
import re

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.cli import report
from lsar_jax.report.page_kit import _LIBRARIES
from tests.eval.test_tasks import ENCODER
from tests.optional import need
from tests.report.planted_text import LINES, planted, write

OPTIONS = {"encoded": [*ENCODER, "--max-length", "24", "--layers", "1"], "given": ["--vectors", "."]}
CASES = [(name, method) for name in OPTIONS for method in ("lsar", "center")]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def folder(request, tmp_path_factory):
    """The folder of a report on text that is encoded, or on given vectors; the map is shared, or needs the language."""
    folder, (name, method) = write(tmp_path_factory.mktemp("text"), LINES), request.param
    for code, rows in planted(np.random.default_rng(0), len(LINES)).items():
        np.save(folder / f"{code}.npy", rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(report, "draw_space", lambda *_: {})
        assert main(["report", ".", *OPTIONS[name], "--aligned", "yes", "--transforms", "original", method]) == 0
    return folder


@pytest.mark.parametrize("library", _LIBRARIES)
def test_the_code_of_a_tab_searches(folder, library, monkeypatch, capsys, tmp_path):
    page = (folder / "report" / "report.html").read_text()
    code = html.unescape(re.search(rf'<pre id="loading-{library}"[^>]*>(.*?)</pre>', page, re.S)[1])
    for module in re.findall(r"^(?:import|from) (\w+)", code, re.M):
        pytest.importorskip(module) if module == "qdrant_client" else need(module)  # only these tests need Qdrant
    monkeypatch.chdir(tmp_path)
    for name, of in (("documents", "de"), ("query", "fr")):
        np.save(f"{name}.npy", np.load(folder / f"{of}.npy"))
    capsys.readouterr()
    exec(compile(code.replace("'report/", f"'{folder}/report/"), library, "exec"), made := {})
    printed = [line.split(" ", 1) for line in capsys.readouterr().out.splitlines()]
    languages, documents = made.get("languages"), made.get("documents", range(25))
    if "encoder" in made:
        x = made["encoder"].encode(documents, max_length=24, language=languages)
    else:
        x = made["transform"](np.load("documents.npy"), "de")
    np.testing.assert_allclose(made["vectors"], x / np.linalg.norm(x, axis=1, keepdims=True), atol=1e-5)
    scores, rows = lj.retrieval.nearest(made["query"][None], x, 2)
    assert [name for _, name in printed] == [f"{documents[row]}" for row in rows[0]]
    np.testing.assert_allclose([float(score) for score, _ in printed], scores[0], atol=6e-4)
    # A shared map of an encoder goes with it into a folder.
    shared = "encoder" in made and made["transform"].languages is None
    assert ("to_sentence_transformers" in code) == (library == "sentence-transformers" and shared)
