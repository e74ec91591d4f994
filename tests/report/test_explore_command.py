"""The command of the explorer: text that is encoded, and vectors of any model."""

import re
import shlex

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.cli import report
from lsar_jax.measures.results import read_results
from tests.eval.test_tasks import ENCODER
from tests.optional import need
from tests.report.page_data import cosines, data_of, near
from tests.report.planted_text import CODES, LINES, planted, write

need("bokeh")


def saved(path):
    """The data of a page in a file, and the code that fits and loads its first method."""
    data = data_of(path.read_text(encoding="utf-8"))
    code = data["code"][data["layers"][0]["methods"][0]["name"]]
    return data, code["fitting"], code["loading"]["NumPy"]


def check_vectors(data, x):
    """Checks that a page has the neighbours of these vectors before any method."""
    similar, [layer] = cosines(np.concatenate(list(x.values())).astype(np.float64)), data["layers"]
    best = np.take_along_axis(similar, near(similar, data["k"]), 1)
    assert np.allclose(layer["cosines"][:, 0] / 100, best, atol=5.1e-3)


def test_text_is_encoded_at_each_layer(tmp_path, fake, refused, capsys, all_progress):
    folder, out = write(tmp_path / "text", LINES), tmp_path / "page.html"
    options = ["explore", str(folder), *ENCODER, "--layers", "1", "3", "--transforms", "lsar", "--out", str(out)]
    assert main([*options, "--aligned", "yes"]) == 0
    assert "measuring neighbours and maps (50%)" in capsys.readouterr().out
    data, fitting, loading = saved(out)
    assert ([layer["name"] for layer in data["layers"]], data["languages"]) == (["1", "3"], list(CODES))
    assert "<title>Language in text</title>" in out.read_text(encoding="utf-8")
    read = f"{shlex.join(ENCODER)} --max-length 128 --texts {folder}"
    assert fitting == f"lsar-jax fit lsar lsar.safetensors --rank {{rank}} --layer {{layer}} {read}"
    assert f"encoder = lj.load_encoder({ENCODER[1]!r}, layer={{layer}}).with_transform" in loading
    assert data["unit"] == 3 * list(range(25))
    assert {text.split(" ", 1)[1] for text in data["texts"]} == {*LINES}
    assert f"{out} already exists" in refused(main, options)
    options = ["explore", folder, "--overwrite", "--out"]
    assert "name it with .html" in refused(main, [*options, folder / "de.txt"])
    assert (folder / "de.txt").read_text().startswith("de red house")
    assert "name a folder of text, such as mycorpus/" in refused(main, ["explore", "--out", tmp_path / "other.html"])


def test_vectors_are_found_by_their_lines(tmp_path, rng, refused):
    x = planted(rng, len(LINES) + 2)
    # A blank line and one that repeats another: their vectors are left out.
    folder = write(tmp_path / "text", ["", LINES[3], *LINES])
    for code, rows in x.items():
        np.save(tmp_path / f"{code}.npy", rows)
    options = ["explore", str(folder), "--out", str(tmp_path / "page.html"), "--vectors"]
    assert main([*options, str(tmp_path), "--aligned", "yes"]) == 0
    data, fitting, loading = saved(tmp_path / "page.html")
    assert data["layers"][0]["name"] == ""
    assert fitting.endswith(f"--rank {{rank}} --texts {tmp_path}")
    assert 'prepared("documents.npy")' in loading
    lines = [1, *(row for row in range(2, len(LINES) + 2) if row != 5)]
    assert [text.split(" ", 1)[1] for text in data["texts"][:25]] == [["", LINES[3], *LINES][row] for row in lines]
    check_vectors(data, {code: rows[lines] for code, rows in x.items()})
    # With vectors of a language that is not in the text, lsar-jax fit would read more.
    np.save(tmp_path / "sw.npy", x["de"])
    assert main([*options, str(tmp_path), "--aligned", "yes", "--overwrite"]) == 0
    assert "read_user_vectors(" in saved(tmp_path / "page.html")[1]
    refusal = refused(main, [*options, str(tmp_path), "--overwrite", "--layers", "8"])
    assert "it must be left out: with --vectors nothing is encoded" in refusal
    assert "must be a folder with de.npy" in refused(main, [*options, str(tmp_path / "de.npy"), "--overwrite"])
    for rows, message in (
        (x["fr"][1:], "fr.npy has 26 vectors, and"),
        (x["fr"][:, 1:], "the arrays differ in width"),
        (x["fr"] * np.float32("nan"), "rows hold NaN or infinity, the first is row 0"),
        (None, "there is no fr.npy, no fr.parquet and no folder fr in"),
    ):
        (tmp_path / "fr.npy").unlink()
        if rows is not None:
            np.save(tmp_path / "fr.npy", rows)
        assert message in refused(main, [*options, str(tmp_path), "--overwrite"])


@pytest.mark.parametrize(
    ("options", "layers", "rank"), [(ENCODER, ["0", "3"], 1), (["--vectors", "vectors"], [""], 2)], ids=("text", "x")
)
def test_it_opens_at_what_a_report_beside_it_recommends(tmp_path, fake, monkeypatch, rng, options, layers, rank):
    monkeypatch.setattr(report, "draw_space", lambda *_: {})
    monkeypatch.chdir(write(tmp_path / "vectors", []).parent)
    for code, rows in planted(rng, len(LINES)).items():
        np.save(f"vectors/{code}.npy", rows)
    given = [str(write(tmp_path / "text", LINES)), *options, "--overwrite", "--transforms", "lsar"]
    (page := write(tmp_path / "out", []) / "explorer.html").touch()
    assert main(["report", *given, "original", "--out", "out"]) == main(["explore", *given, "--out", str(page)]) == 0
    data, *_ = saved(page)
    assert data["recommended"] == {"layer": 0, "transform": "lsar", "parameters": {"rank": rank}, "known": True}
    assert [of["name"] for of in data["layers"]] == layers
    # Without a transform in its folder, the report recommends none, at the layer that is the best without.
    (page.parent / report.TRANSFORM).unlink()
    assert main(["explore", *given, "--out", str(page)]) == 0
    recommended = saved(page)[0]["recommended"]
    rows = [of for of in read_results(page.parent / report.RESULTS) if of.shown and of.transform == "original"]
    assert recommended["layer"] == max(rows, key=lambda of: of.value).layer
    assert (recommended["transform"], recommended["known"]) == ("original", False)
    for name, other in (("report", "explorer"), ("explorer", "report")):
        assert f'<a href="{other}.html">' in page.with_name(f"{name}.html").read_text()


def test_pairs_and_other_options_are_read_by_python(tmp_path, fake, monkeypatch):
    (tmp_path / "en-de.tsv").write_text("".join(f"en {line}\tde {line}\n" for line in LINES))
    monkeypatch.chdir(tmp_path)
    options = ["--prompt", "", "--dtype", "bfloat16", "--max-length", "9", "--layers", "1", "3", "--out", "page.html"]
    monkeypatch.setattr(fake, "with_prompt", lambda encoder, prompt: encoder, raising=False)
    assert main(["explore", ".", "--transforms", "lsar", *options]) == 0
    data, fitting, loading = saved(tmp_path / "page.html")
    opening = "lj.load_encoder('bundled', layer=3, dtype='bfloat16').with_prompt('')"
    code = fitting.replace("{layer}", "3").replace("{rank}", "1")
    assert f"encoder = {opening}" in code
    assert f"encoder = {opening}.with_transform" in loading.replace("{layer}", "3")
    monkeypatch.setattr(lj, "load_encoder", fake.load)
    lengths = []
    encode = fake.encode
    monkeypatch.setattr(fake, "encode", lambda *a, max_length: lengths.append(max_length) or encode(*a))
    exec(code, made := {})
    assert lengths == [9, 9]
    assert {code: rows.shape for code, rows in made["x"].items()} == {"en": (25, 32), "de": (25, 32)}
    assert [*made["text"].sentences["de"]] == [text for text in data["texts"] if text.startswith("de")]


def test_one_file_holds_text_languages_and_vectors(tmp_path, rng, refused):
    pyarrow = need("pyarrow")
    parquet = need("pyarrow.parquet")
    x = planted(rng, len(LINES))
    columns = {
        "language": [code for code in CODES for _ in LINES],
        "content": [f"{code} {line}" for code in CODES for line in LINES],
        "vector": np.concatenate([*x.values()]).tolist(),
    }
    out, file, vectors = tmp_path / "page.html", tmp_path / "corpus.parquet", tmp_path / "x.npy"
    parquet.write_table(pyarrow.table(columns), file)
    np.save(vectors, np.concatenate([*x.values()]))
    options = ["--out", str(out), "--transforms", "center", "cbie", "--languages", "fr", "de", "--text", "content"]
    assert main(["explore", *options, "--vectors", str(file)]) == 0
    page = out.read_text(encoding="utf-8")
    assert main(["explore", str(file), *options, "--vectors", str(vectors), "--overwrite"]) == 0
    read = f"read_user_vectors(Path('{vectors}')"
    assert out.read_text(encoding="utf-8").replace(read, f"read_user_vectors(Path('{file}')") == page
    data, fitting, _ = saved(out)
    assert (data["languages"], data["unit"], len(data["texts"])) == (["de", "fr"], None, 50)
    check_vectors(data, {code: x[code] for code in ("de", "fr")})
    # Its columns are no files of lsar-jax fit, and the page has Python that reads them.
    exec(re.sub(r"\ntransform = .*", "", fitting, flags=re.S), made := {})
    assert all((made["x"][code] == x[code]).all() for code in ("fr", "de"))
    assert main(["explore", "--vectors", str(file), *options[:5], *options[-2:], "--overwrite"]) == 0
    assert saved(out)[1].endswith(f" --texts {file}")  # all that it has
    options = ["explore", str(file), *options, "--overwrite"]
    assert "known languages are de, en, fr" in refused(main, [*options, "--languages", "sw", "de"])
    assert "--aligned yes needs as many lines" in refused(main, [*options, "--aligned", "yes"])
    parquet.write_table(pyarrow.table(columns | {"vector": [[1.0]] + 74 * [[1.0, 2.0]]}), file)
    assert "the column vector must hold lists of as many floats" in refused(main, [*options, "--vectors", str(file)])
