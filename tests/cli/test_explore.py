"""The command of the explorer: text that is encoded, and vectors of any model."""

import shlex

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from tests.eval.test_bias import CODES, LINES, planted, write
from tests.explorer.reading import data_of, moved, numbers
from tests.optional import need

need("bokeh")


class Saved:
    """A page in a file."""

    def __init__(self, path):
        self.html = path.read_text(encoding="utf-8")


def test_text_is_encoded_at_each_layer(tmp_path, fake, refused):
    from tests.eval.test_tasks import ENCODER

    folder, out = write(tmp_path / "text", LINES), tmp_path / "page.html"
    options = [
        "explore",
        "--texts",
        str(folder),
        *ENCODER,
        "--layers",
        "1",
        "3",
        "--transforms",
        "lsar",
        "--out",
        str(out),
    ]
    assert main([*options, "--aligned", "yes", "--shown", "60"]) == 0
    data = data_of(Saved(out))
    assert ([layer["name"] for layer in data["layers"]], data["languages"]) == (["1", "3"], list(CODES))
    assert data["title"] == "Language in text"
    files = " ".join(f"{code}={folder / code}.txt" for code in CODES)
    assert data["fit"] == f"{shlex.join(ENCODER)} --max-length 128 --data {files}"
    assert (data["encode"], data["reading"]) == ("max_length=128", "")
    assert data["opening"].startswith(f"lj.load_encoder({ENCODER[1]!r}, layer={{layer}}")
    assert len(data["texts"]) == 60
    assert data["unit"] == 3 * list(range(20))
    assert {text.split(" ", 1)[1] for text in data["texts"]} <= {*LINES}
    assert f"{out} already exists" in refused(main, options)
    options = ["explore", "--texts", folder, "--overwrite", "--out"]
    assert "name it with .html" in refused(main, [*options, folder / "de.txt"])
    assert (folder / "de.txt").read_text().startswith("de red house")


def test_vectors_are_found_by_their_lines(tmp_path, rng, refused):
    x = planted(rng, len(LINES) + 2)
    # A blank line and one that repeats another: their vectors are left out.
    folder = write(tmp_path / "text", ["", LINES[3], *LINES])
    for code, rows in x.items():
        np.save(tmp_path / f"{code}.npy", rows)
    options = ["explore", "--texts", str(folder), "--out", str(tmp_path / "page.html"), "--vectors"]
    assert main([*options, str(tmp_path), "--aligned", "yes"]) == 0
    data = data_of(Saved(tmp_path / "page.html"))
    [layer] = data["layers"]
    assert layer["name"] == ""
    assert (data["fit"], data["opening"]) == (f"--data {' '.join(f'{c}={tmp_path / c}.npy' for c in x)}", "")
    z, residual = moved(data, layer, layer["methods"][0], 0), numbers(layer["residual"])
    lines = [1, *(row for row in range(2, len(LINES) + 2) if row != 5)]
    right = np.concatenate([rows[lines] for rows in x.values()])
    assert [text.split(" ", 1)[1] for text in data["texts"][:25]] == [["", LINES[3], *LINES][row] for row in lines]
    assert np.allclose(np.sqrt((z**2).sum(axis=1) + residual**2), np.linalg.norm(right, axis=1), rtol=1e-3)
    refusal = refused(main, [*options, str(tmp_path), "--overwrite", "--layers", "8"])
    assert "--layers is given, but with --vectors nothing is encoded; omit it" in refusal
    np.save(tmp_path / "fr.npy", x["fr"][1:])
    assert "fr.npy has 26 vectors, and" in refused(main, [*options, str(tmp_path), "--overwrite"])
    assert "must be a folder with de.npy" in refused(main, [*options, str(tmp_path / "de.npy"), "--overwrite"])
    (tmp_path / "fr.npy").unlink()
    assert "there is no fr.npy and no folder fr in" in refused(main, [*options, str(tmp_path), "--overwrite"])


def test_pairs_and_other_options_are_read_by_python(tmp_path, fake, monkeypatch):
    (tmp_path / "en-de.tsv").write_text("".join(f"en {line}\tde {line}\n" for line in LINES))
    monkeypatch.chdir(tmp_path)
    options = ["--prompt", "", "--dtype", "bfloat16", "--max-length", "9", "--layers", "1", "3", "--out", "page.html"]
    monkeypatch.setattr(fake, "with_prompt", lambda encoder, prompt: encoder, raising=False)
    assert main(["explore", "--texts", ".", "--transforms", "lsar", *options]) == 0
    data = data_of(Saved(tmp_path / "page.html"))
    assert (data["title"], data["fit"]) == (f"Language in {tmp_path.name}", "")
    opening = "lj.load_encoder('bundled', layer=3, dtype='bfloat16').with_prompt('')"
    code = data["reading"].replace("{layer}", "3")
    assert f"encoder = {opening}" in code
    assert data["opening"].replace("{layer}", "3") == opening
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
        "text": [f"{code} {line}" for code in CODES for line in LINES],
        "vector": np.concatenate([*x.values()]).tolist(),
    }
    out, file, vectors = tmp_path / "page.html", tmp_path / "corpus.parquet", tmp_path / "x.npy"
    parquet.write_table(pyarrow.table(columns), file)
    np.save(vectors, np.concatenate([*x.values()]))
    options = ["explore", "--out", str(out), "--transforms", "center", "cbie", "--languages", "fr", "de"]
    assert main([*options, "--vectors", str(file)]) == 0
    page = out.read_text(encoding="utf-8")
    assert main([*options, "--texts", str(file), "--vectors", str(vectors), "--overwrite"]) == 0
    read = f"read_user_vectors(Path('{vectors}')"
    assert out.read_text(encoding="utf-8").replace(read, f"read_user_vectors(Path('{file}')") == page
    data = data_of(Saved(out))
    assert (data["languages"], data["unit"], len(data["texts"])) == (["de", "fr"], None, 50)
    # Its columns are no files of lsar-jax fit, and the page has Python that reads them.
    assert data["fit"] == ""
    exec(data["reading"], made := {})
    assert {code: rows.tolist() for code, rows in made["x"].items()} == {
        code: x[code].tolist() for code in ("fr", "de")
    }
    z, residual = moved(data, data["layers"][0], {"steps": []}, 0), numbers(data["layers"][0]["residual"])
    lengths = np.concatenate([np.linalg.norm(x[code], axis=1) for code in ("de", "fr")])
    assert np.allclose(np.sqrt((z**2).sum(axis=1) + residual**2), lengths, rtol=1e-3)
    np.save(vectors, x["de"])
    options = [*options, "--texts", str(file), "--overwrite", "--vectors", str(vectors)]
    assert "x.npy has 25 vectors, and" in refused(main, options)
    assert "known languages are de, en, fr" in refused(main, [*options, "--languages", "sw", "de"])
    assert "--aligned yes needs a folder" in refused(main, [*options, "--aligned", "yes"])
    parquet.write_table(pyarrow.table(columns | {"vector": [[1.0]] + 74 * [[1.0, 2.0]]}), file)
    assert "the column vector must hold lists of as many floats" in refused(main, [*options, "--vectors", str(file)])


@pytest.mark.parametrize("option", [["--transforms", "pca"], ["--aligned", "perhaps"]])
def test_unknown_choices_are_refused(tmp_path, option, capsys):
    with pytest.raises(SystemExit):
        main(["explore", "--texts", str(tmp_path), *option])
    assert option[1] in capsys.readouterr().err
