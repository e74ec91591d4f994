"""BUCC's pipeline against a brute force on its files, made and read."""

import numpy as np
import pytest

from eval.__main__ import main
from eval.data.bucc import read_split
from lsar_jax.corpora.parallel_text import distinct, held_out, read_bitext
from tests.dataset_hub import write_rows
from tests.eval.test_published import check_published_metrics
from tests.eval.test_tasks import ENCODER, read
from tests.fake_encoder import FakeEncoder
from tests.mining.test_pairs import brute_force

pytestmark = pytest.mark.usefixtures("fake")
OPTIONS = ["--layers", "2", "--languages", "de", "fr"]


@pytest.fixture
def bitext(tmp_path, rng):
    for code, other in (("de", "xbcdefgh"), ("fr", "abcdyfgx")):
        letters = rng.integers(8, size=(80, 10))
        sides = (map(" ".join, np.array(list(alphabet))[letters]) for alphabet in ("abcdefgh", other))
        write_rows(tmp_path, f"bitext/en-{code}.tsv", list(zip("d" * 80, *sides, strict=True)))
    return tmp_path / "bitext"


@pytest.fixture
def made(bitext, tmp_path):
    to = tmp_path / "bucc"
    assert main(["make-bucc", "--data", str(bitext), "--to", str(to), "--languages", "de", "fr", "--gold", "0.4"]) == 0
    return to


def test_bucc_equals_brute_force(made, tmp_path, capsys):
    command = ["bucc", *ENCODER, *OPTIONS, "--data", str(made), "--transforms", "original", "--out"]
    assert main([*command, str(tmp_path / "out")]) == 0
    values = {r["metric"]: r["value"] for r in read(tmp_path / "out")}
    encoder = FakeEncoder(2)
    scores = {}
    for code in ("de", "fr"):
        found = {}
        for split in ("sample", "training"):
            part = read_split(made, code, split)
            sides = (part.other, part.english)
            x, y = (encoder.encode(list(side)) for side in sides)
            names, english = (list(side.values()) for side in sides)
            pairs = sorted(brute_force(x, y, 4, "ratio", "max").items(), key=lambda pair: -pair[1])
            kept = [(score, (names[i], english[j]) in part.gold) for (i, j), score in pairs]
            found[split] = kept, len(part.gold)
        # Every threshold is tried on the sample; the best is halfway to the next score.
        (kept, gold), (tested, test_gold) = found["sample"], found["training"]
        f1 = [2 * sum(r for _, r in kept[: n + 1]) / (n + 1 + gold) for n in range(len(kept))]
        best = int(np.argmax(f1))
        threshold = (kept[best][0] + kept[best + 1][0]) / 2 if best + 1 < len(kept) else kept[best][0]
        above = [right for score, right in tested if score >= threshold]
        scores[code] = 200 * sum(above) / (len(above) + test_gold)
        assert values[f"threshold {code}"] == pytest.approx(threshold, abs=1e-4)
        assert values[f"precision {code}"] == pytest.approx(100 * np.mean(above), abs=0.01)
        assert values[f"recall {code}"] == pytest.approx(100 * sum(above) / test_gold, abs=0.01)
        assert values[f"F1 {code}"] == pytest.approx(scores[code], abs=0.01)
    for r in read(tmp_path / "out"):
        assert "threshold" in r["metric"] or r["low"] <= r["value"] <= r["high"]
    assert values["F1 mean"] == pytest.approx(np.mean(list(scores.values())), abs=0.01)
    assert "BUCC, 2 languages" in capsys.readouterr().out
    check_published_metrics("bucc", values)


def test_made_files(made, bitext):
    pairs = set(read_bitext(bitext, ["de"], "--data")["de"])
    sentences = {}
    for split in ("sample", "training"):
        part = read_split(made, "de", split)
        german, english = ({name: text for text, name in side.items()} for side in (part.other, part.english))
        # Nothing but the gold pairs is a pair.
        gold = {(english[en], german[de]) for de, en in part.gold}
        assert gold == {(e, o) for e, o in pairs if e in part.english and o in part.other}
        assert len(part.other) > len(gold)
        sentences[split] = set(part.other) | {f"en {text}" for text in part.english}
    assert not sentences["sample"] & sentences["training"]


def test_a_sentence_that_comes_twice_counts_for_nothing(tmp_path):
    for name, text in (("de", "de-1\ta\nde-2\tb\nde-3\ta\n"), ("en", "en-1\tx\nen-2\ty\n"), ("gold", "de-1\ten-1\n")):
        (tmp_path / f"de-en.dev.{name}").write_text(text)
    part = read_split(tmp_path, "de", "sample")
    assert part.other == {"a": None, "b": "de-2"}
    assert part.gold == {("de-1", "en-1")}


def test_data_that_is_not_there(tmp_path, refused):
    with pytest.raises(FileNotFoundError, match="there is no folder .*nowhere; get it from comparable"):
        read_split(tmp_path / "nowhere", "de", "sample")
    make = ["make-bucc", "--data", str(tmp_path), "--to", str(tmp_path / "to"), "--languages", "de"]
    assert "has no en-de.tsv; it has none" in refused(main, make)
    (tmp_path / "en-de.tsv").write_text("d\ta b\tc d\n" * 3)
    assert "has only 1 distinct pairs for de; omit the language" in refused(main, make)


def test_distinct_and_held_out():
    pairs = [("A cat.", "x"), ("a cat", "y"), ("B", "x!"), ("c 1", "z"), ("c 22", "w"), ("d", "...")]
    assert distinct(pairs) == [("A cat.", "x"), ("c 1", "z")]
    many = [(f"{a}{b}", f"{b}{a}x") for a in "abcdef" for b in "ghijk"]
    train, held = held_out(many, 10, seed=1)
    assert len(held) == 10
    assert sorted(train + held) == sorted(many)
    assert held_out(many, 10, seed=1) == (train, held)
    assert held_out(many, 10, seed=2)[1] != held
    # Below 1, a share; a smaller part of the same order.
    assert held_out(many, 0.2, seed=1)[1] == held[:6]
    for count in (30, 0.001, 1.5):
        with pytest.raises(ValueError, match=f"{count} pairs cannot be held out of 30 distinct ones"):
            held_out(many, count)


@pytest.mark.parametrize(
    ("task", "data", "message"),
    [
        ("bucc", "hub:mteb/bucc-bitext-mining", "BUCC on the Hub has no sample split to tune on"),
        ("lareqa", "hub:google/xquad", "XQuAD-R on the Hub lacks sentence breaks"),
    ],
)
def test_what_the_hub_cannot_have_is_said_before_it_is_asked(task, data, message, tmp_path, refused):
    assert message in refused(main, [task, *ENCODER, "--data", data, "--out", str(tmp_path)])
