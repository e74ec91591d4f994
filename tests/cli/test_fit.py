"""``lsar-jax fit`` and ``apply``: the same transforms as from Python, in bounded memory."""

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from tests.commands import peak_memory
from tests.conftest import TINY

CODES = ("de", "en", "fr", "zh")


@pytest.fixture
def vectors(rng, tmp_path):
    x = {code: rng.standard_normal((50 + i, 12)).astype(np.float32) + 3 * i for i, code in enumerate(CODES)}
    for code, rows in x.items():
        np.save(tmp_path / f"{code}.npy", rows)
    return x, ["--texts", *(f"{code}={tmp_path / code}.npy" for code in CODES)]


FITS = {
    "center": (lj.transforms.fit_center, {}, []),
    "lir": (lj.transforms.fit_lir, {"components": 2}, ["--components", "2"]),
    "lsar": (lj.transforms.fit_lsar, {"rank": 2}, ["--rank", "2"]),
    "outliers": (lj.transforms.fit_outliers, {"largest": 2}, ["--largest", "2"]),
    "language-whitening": (lj.transforms.fit_whitening, {"eps": 0.1, "per_language": True}, ["--eps", "0.1"]),
    "leace": (lj.transforms.fit_leace, {}, []),
    "cbie": (lj.transforms.fit_cbie, {"clusters": 2, "components": 3}, ["--clusters", "2", "--components", "3"]),
}


@pytest.mark.parametrize("method", FITS)
def test_fit_from_vectors_equals_python(vectors, tmp_path, method, capsys):
    x, data = vectors
    fit, arguments, options = FITS[method]
    expected = fit(x, **arguments)
    assert main(["fit", method, str(tmp_path / "t"), *data, *options]) == 0
    got = lj.Transform.load(tmp_path / "t")
    assert got.fits == expected.fits
    for code, rows in x.items():
        np.testing.assert_allclose(got(rows, code), expected(rows, code), atol=1e-4)
    printed = capsys.readouterr().out
    assert f"{expected.name} on 206 sentences: de 50, en 51, fr 52, zh 53" in printed
    applied = ["apply", str(tmp_path / "t"), str(tmp_path / "zh.npy"), str(tmp_path / "y.npy"), "--language", "cmn"]
    assert main(applied) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), got(x["zh"], "zh"))


def test_strength_of_fit_and_of_apply(vectors, tmp_path, capsys):
    x, data = vectors
    whole = lj.transforms.fit_center(x)
    assert main(["fit", "center", str(tmp_path / "t"), *data, "--strength", "0.5"]) == 0
    assert "at_strength(strength=0.5) on" not in capsys.readouterr().out
    applied = ["apply", str(tmp_path / "t"), str(tmp_path / "zh.npy"), str(tmp_path / "y.npy"), "--language", "zh"]
    assert main([*applied, "--strength", "0.5"]) == 0
    expected = whole.at_strength(0.5).at_strength(0.5)(x["zh"], "zh")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, atol=1e-5)
    for command in (["fit", "center", str(tmp_path / "u"), *data], [*applied, "--overwrite"]):
        assert main([*command, "--strength", "2"]) == 1
        assert "strength is 2.0; it must be a number from 0" in capsys.readouterr().err
    assert not (tmp_path / "u").exists()
    assert main(["fit", "cbie", str(tmp_path / "u"), *data, "--strength", "0.5"]) == 0
    assert lj.Transform.load(tmp_path / "u").name.endswith(") then at_strength(strength=0.5)")


def test_fit_from_text_equals_python(tmp_path):
    sentences = {"de": ["abc", "bcd ef", "c"], "en": ["hij", "h", "ij i", "g"]}
    for code, lines in sentences.items():
        (tmp_path / f"{code}.txt").write_text("\n\n".join(lines) + "\n")
    data = ["--texts", *(f"{code}={tmp_path / code}.txt" for code in sentences)]
    out, saved = tmp_path / "t", tmp_path / "m"
    command = ["fit", "center", str(out), *data, "--encoder", str(TINY), "--layer", "2"]
    assert main([*command, "--save", str(saved), "--identifier"]) == 0
    encoder = lj.load_encoder(str(TINY), layer=2)
    x = {code: encoder.encode(lines) for code, lines in sentences.items()}
    got = lj.Transform.load(out)
    assert got.source == encoder.spec
    assert got.identifier.languages == ("de", "en")
    np.testing.assert_allclose(got(x["de"], "de"), lj.transforms.fit_center(x)(x["de"], "de"), atol=1e-5)
    # The saved moments, and a part of a corpus besides them.
    assert isinstance(lj.load_moments(saved)[0], lj.PooledMoments)
    assert main(["fit", "center", str(out), "--moments", str(saved), *data, *command[6:], "--overwrite"]) == 0
    assert dict(lj.Transform.load(out).fits[0].fitted_on) == {"de": 6, "en": 8}
    assert main(["fit", "center", str(out), "--moments", str(saved), "--overwrite"]) == 0
    assert lj.Transform.load(out).source == encoder.spec


def test_moments_of_parts(vectors, tmp_path):
    x, _ = vectors
    first, second, out = (str(tmp_path / name) for name in ("first", "second", "t"))
    data = ["--texts", *(str(tmp_path / f"{code}.npy") for code in ("de", "en"))]
    assert main(["fit", "lir", out, *data, "--save", first]) == 0
    data = ["--texts", *(str(tmp_path / f"{code}.npy") for code in ("en", "fr", "zh"))]
    assert main(["fit", "lir", out, *data, "--save", second, "--overwrite"]) == 0
    assert main(["fit", "leace", out, "--moments", first, second, "--save", str(tmp_path / "all"), "--overwrite"]) == 0
    # A method that needs less leaves what was saved as rich as it was.
    whole, _ = lj.load_moments(tmp_path / "all")
    assert {code: m.count for code, m in whole.items()} == {"de": 50, "en": 102, "fr": 52, "zh": 53}
    assert all(m.scatter is not None for m in whole.values())
    assert main(["fit", "lsar", out, "--moments", str(tmp_path / "all"), "--overwrite"]) == 0
    expected = lj.transforms.fit_lsar(whole)
    np.testing.assert_allclose(lj.Transform.load(out)(x["fr"]), expected(x["fr"]), atol=1e-4)


def test_parts_of_different_encoders_are_not_mixed(vectors, tmp_path, refused):
    x, data = vectors
    moments = {code: lj.Moments.from_embeddings(rows) for code, rows in x.items()}
    specs = [lj.EncoderSpec("e", revision, 8, "mean", "float32") for revision in ("1", "2")]
    for name, source in (("a", specs[0]), ("b", specs[1]), ("c", None)):
        lj.save_moments(tmp_path / name, moments, source=source)
    fit = ["fit", "lsar", tmp_path / "t", "--moments", tmp_path / "a"]
    for more in ([tmp_path / "b"], [tmp_path / "c"], data):
        assert "the parts are embeddings of different encoders" in refused(main, [*fit, *more])
    assert main(["fit", "lsar", str(tmp_path / "t"), "--moments", str(tmp_path / "c"), *data]) == 0


MISTAKES = [
    ("lsar {out}", "there is nothing to fit on; give --texts"),
    ("lsar {out} --texts de=nowhere.npy", "there is no nowhere.npy in "),
    ("lsar {out} --texts de={de} en={ints}", "ints.npy must be a numpy or jax array of floats"),
    ("lsar {out} --texts de={de} en={nan}", "nan.npy: the embeddings hold NaN, infinity or a number too large"),
    ("lsar {out} --moments nowhere", "there is no moments file at nowhere"),
    ("lsar {out} --texts de={de} en={text} --encoder bundled", "--texts mixes text and vectors"),
    ("lir {out} --moments {means}", "lir needs second moments by language, but the saved moments have means; save"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_refusals(vectors, tmp_path, refused, arguments, message):
    paths = {name: tmp_path / f"{name}.npy" for name in ("de", "ints", "nan")}
    np.save(paths["ints"], np.ones((3, 12), np.int64))
    rows = np.ones((9, 12), np.float32)
    rows[3, 3] = np.nan
    np.save(paths["nan"], rows)
    paths |= {name: tmp_path / name for name in ("text", "means")}
    paths["text"].write_text("a\n")
    lj.save_moments(paths["means"], {code: lj.Moments.from_embeddings(x) for code, x in vectors[0].items()})
    given = [item.format(out=tmp_path / "t", folder=tmp_path, **paths) for item in arguments.split()]
    assert message in refused(main, ["fit", *given])
    assert not (tmp_path / "t").exists()


# CBIE is fitted on the embeddings themselves.
@pytest.mark.parametrize("command", ["center --rank 7", "lir --per-language", "cbie --moments m"])
def test_options_of_another_method_are_refused(tmp_path, capsys, command):
    method, *option = command.split()
    with pytest.raises(SystemExit) as ended:
        main(["fit", method, str(tmp_path / "t"), "--texts", "de=de.npy", *option])
    assert ended.value.code == 2
    assert option[0] in capsys.readouterr().err


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path, rng):
    # 400 MB of vectors against 40: both are more than the blocks that are in memory at once.
    peaks, block = [], rng.standard_normal((4000, 256)).astype(np.float16)
    for blocks in (10, 100):
        data = [f"{code}={tmp_path / code}.npy" for code in ("de", "en")]
        for shift, item in enumerate(data):
            np.save(item[3:], np.tile(block + np.float16(shift), (blocks, 1)))
        peaks.append(peak_memory("fit", "lsar", tmp_path / "t", "--overwrite", "--texts", *data))
    assert peaks[1] - peaks[0] < 50


def test_encoded_folders(tmp_path, capsys, refused, all_progress):
    sentences = {"de": ["abc", "", "bcd ef", "c"], "en": ["hij", "h", " ", "ij i", "g"]}
    encoder = lj.load_encoder(str(TINY), layer=2)
    for code, lines in sentences.items():
        (tmp_path / f"{code}.txt").write_text("\n".join(lines) + "\n")
        lj.embeddings.encode(encoder, [tmp_path / f"{code}.txt"], tmp_path / code, shard_rows=2)
    out = [str(tmp_path / name) for name in ("from-text", "from-folders")]
    text = ["--texts", *(f"{code}={tmp_path / code}.txt" for code in sentences), "--encoder", str(TINY), "--layer", "2"]
    folders = ["--texts", *(f"{code}={tmp_path / code}" for code in sentences)]
    for method, options in (("center", ["--limit", "4"]), ("cbie", ["--components", "1", "--clusters", "1"])):
        assert main(["fit", method, out[0], *text, *options, "--overwrite"]) == 0
        assert main(["fit", method, out[1], *folders, *options, "--overwrite"]) == 0
        assert capsys.readouterr().out.count("2 blank lines were skipped") == 2
        left, right = map(lj.Transform.load, out)
        assert left.source == right.source == encoder.spec
        assert dict(left.fits[0].fitted_on) == {"de": 3, "en": 3 if method == "center" else 4}
        x = encoder.encode(sentences["de"])
        np.testing.assert_allclose(left(x, "de"), right(x, "de"), atol=1e-5)
    assert main(["fit", "center", out[0], *text, "--overwrite"]) == 0
    assert main(["fit", "center", out[1], *folders, "--overwrite"]) == 0
    applied = ["apply", out[1], str(tmp_path / "de"), str(tmp_path / "y.npy"), "--language", "de"]
    assert main(applied) == 0
    printed = capsys.readouterr().out.splitlines()
    verbs = "encoded", "read", "transformed"
    encoded, read, transformed = ([line for line in printed if line.startswith(verb)] for verb in verbs)
    assert encoded == ["encoded 3 sentences (48%)", "encoded 7 sentences (100%)"]  # of 14 and 15 bytes
    assert [line.partition(" (")[0] for line in read] == ["read 3 vectors", "read 7 vectors"]
    assert transformed == ["transformed 4 of 4 vectors (100%)"]
    center = lj.Transform.load(out[1])
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), center(encoder.encode(sentences["de"]), "de"), atol=1e-5)
    # Vectors of another space, and an output in a folder that is read.
    lj.embeddings.encode(lj.load_encoder(str(TINY), layer=1), [tmp_path / "en.txt"], tmp_path / "other")
    for command, message in (
        (["fit", "center", out[1], "--texts", f"de={tmp_path / 'de'}", f"en={tmp_path / 'other'}", "--overwrite"],
         "the parts are embeddings of different encoders: layer 2, not 1"),
        (["apply", out[1], tmp_path / "other", tmp_path / "z.npy", "--language", "en"],
         "fitted on other embeddings than those of "),
        (["fit", "center", tmp_path / "de" / "t", *folders], "which is read; choose another place for the output"),
    ):  # fmt: skip
        assert message in refused(main, command)
