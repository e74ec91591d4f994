"""Word pairs: split, aligned, filtered, written and read; the aligner is eflomal itself."""

import json
import re

import pytest

from lsar_jax.languages import spaces_words
from tests.dataset_hub import write_rows
from tests.optional import need
from train.text import TextOptions
from train.word_pairs.__main__ import main
from train.word_pairs.aligned_files import AlignedPair, LinkCounts, keep, read_aligned, write_aligned
from train.word_pairs.word_splitter import word_splitter


@pytest.mark.parametrize(
    ("language", "sentence", "words"),
    [
        ("en", "It's 3.5% & there, e.g. ||| here.", "It 's 3.5 % & there , e.g. | | | here ."),
        ("fr", "L'homme n'est pas là.", "L' homme n' est pas là ."),
        ("deu", "Größe, z.B.\u20283,5 km!", "Größe , z.B. 3,5 km !"),
        ("zh-Hant", "我愿意接受你的报价。", "我 愿意 接受 你 的 报价 。"),
        ("ja", "まだ家にいますか。", "まだ 家 に い ます か 。"),
        ("th", "คุณยังอยู่ที่บ้านไหม", "คุณ ยังอยู่ ที่ บ้าน ไหม"),
        ("bn", "র\u200d্যাব পড়ি।", "র\u200d্যাব পড়ি ।"),
        ("fa", "می\u200cروم!", "می\u200cروم !"),
        ("yo", "o\u0323\u0300re\u0323\u0301, 10\u00a0000", "o\u0323\u0300re\u0323\u0301 , 10 000"),
        ("zh-Latn", "nǐ hǎo.", "nǐ hǎo ."),
    ],
)
def test_words_are_split_as_they_are_written(language, sentence, words):
    assert word_splitter(language)(sentence) == words.split()


@pytest.mark.parametrize("language", ["yue", "lzh", "wuu", "gan", "bo", "dz", "xct", "my", "shn", "lo", "km", "ii"])
def test_languages_without_spaces(language):
    assert not spaces_words(language)
    with pytest.raises(ValueError, match=f"{language} is written without spaces between words; split its words"):
        word_splitter(language)


def dictionary(rng, count):
    """Sentences of words such as wabc and, in reverse order, of their translations, vabc."""
    words = ["".join(rng.choice(list("abcdefgh"), 4)) for _ in range(60)]
    rows = [rng.choice(words, rng.integers(3, 9), replace=False) for _ in range(count)]
    return [[f"w{word}" for word in row] for row in rows], [[f"v{word}" for word in row[::-1]] for row in rows]


PAIRS = [
    AlignedPair(("the", "GIMP", "saves"), ("das", "GIMP", "speichert"), frozenset({(0, 0), (0, 2), (1, 1), (2, 1)})),
    AlignedPair(("OK",), ("OK",), frozenset({(0, 0)})),
    AlignedPair(("no", "link"), ("ohne",), frozenset()),
]


def test_what_is_kept_and_counted():
    kept, counts = keep(PAIRS)
    # Without GIMP-GIMP, saves-GIMP is one to one; the-das and the-speichert share a word.
    assert kept == [PAIRS[0]._replace(links={(2, 1)})]
    assert counts == LinkCounts(aligned=5, different=3, one_to_one=1, pairs=3, linked=1)
    assert keep(kept) == (kept, LinkCounts(1, 1, 1, 1, 1))
    assert keep([AlignedPair(("gimp",), ("GIMP",), frozenset({(0, 0)}))])[0], "case counts"


def test_files_of_any_aligner_are_filtered_when_read(tmp_path):
    write_aligned(tmp_path, "de", "train", PAIRS)
    assert (tmp_path / "en-de.train.words").read_text().splitlines()[0] == "the GIMP saves ||| das GIMP speichert"
    assert (tmp_path / "en-de.train.links").read_text() == "0-0 0-2 1-1 2-1\n0-0\n\n"
    assert read_aligned(tmp_path, "train") == {"de": keep(PAIRS)[0]}
    assert list(read_aligned(tmp_path, "train", ["ger"])) == ["de"]
    # As fast_align counts them: the no-break space is inside the third word.
    (tmp_path / "en-de.train.words").write_text("He owes 10\u00a0000\teuros ||| Er schuldet 10\u00a0000 Euro\n")
    (tmp_path / "en-de.train.links").write_text("0-0 1-1\t3-3\n")
    [pair] = read_aligned(tmp_path, "train")["de"]
    assert [(pair.english[i], pair.other[j]) for i, j in sorted(pair.links)] == [
        ("He", "Er"), ("owes", "schuldet"), ("euros", "Euro"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "links", "error", "message"),
    [
        ("a ||| b\nc ||| d", "0-0", ValueError, "links has 1 lines and .*words has more"),
        ("a ||| b", "0-0\n0-0", ValueError, "words has 1 lines and .*links has more"),
        ("a ||| b\na b", "0-0\n0-0", ValueError, "words, line 2 is not 'English words ||| other words'"),
        ("a |||  ", "0-0", ValueError, "line 1 is not"),
        ("a ||| b ||| c", "0-0", ValueError, "line 1 is not"),
        ("a\u00a0b ||| c", "1-0", ValueError, "line 1: '1-0' is not a link .* the sides have 1 and 1"),
        ("a ||| b", "0-1", ValueError, "links, line 1: '0-1' is not a link of two words such as 0-2"),
        ("a ||| b", "-1-0", ValueError, "links, line 1: '-1-0' is not a link of two words"),
        ("a ||| b", None, FileNotFoundError, "there is no en-de.train.links in"),
    ],
)
def test_broken_files_are_named(tmp_path, words, links, error, message):
    (tmp_path / "en-de.train.words").write_text(words)
    if links is not None:
        (tmp_path / "en-de.train.links").write_text(links)
    with pytest.raises(error, match=message.replace("|", "[|]")):
        read_aligned(tmp_path, "train")


@pytest.fixture
def texts(rng, tmp_path):
    """Two folders of parallel text, of German and of German and French."""
    for number, (folder, codes) in enumerate((("a", ["de"]), ("b", ["de", "fr"]))):
        for code in codes:
            rows = zip(*dictionary(rng, 150), strict=True)
            mark = code + "qr"[number]
            # Words in a are names, which are not translated.
            sides = [(" ".join(s), f"x{mark} {' '.join(t).replace('va', 'wa')}") for s, t in rows]
            write_rows(tmp_path, f"{folder}/en-{code}.tsv", sides)
    return tmp_path


def test_several_texts_are_split_together(texts):
    more = (texts / "b",)
    alone, both = (TextOptions(texts / "a", added, held_out=20, validation=0.2).pairs() for added in ((), more))
    assert (list(alone), list(both)) == (["de"], ["de", "fr"])
    train, validation = both["de"]
    # Both texts are in both parts, and what is held out of one by itself is held out here too.
    for part in (train, validation):
        assert {re.match("xde(.)", target)[1] for _, target in part} == {"q", "r"}
    of_first = [pair for pair in (*train, *validation) if pair[1].startswith("xdeq")]
    assert set(of_first) <= {pair for part in alone["de"] for pair in part}
    assert not {s for s, _ in train} & {s for part in both.values() for s, _ in part[1]}
    assert list(TextOptions(texts / "a", more, ("fr",), held_out=20).pairs()) == ["fr"]
    with pytest.raises(FileNotFoundError, match="a, .*b have no text in it"):
        TextOptions(texts / "a", more, ("fr", "it"), held_out=20).pairs()


def test_the_command(texts, printed, refused):
    need("eflomal")
    out = texts / "out"
    command = ["--data", str(texts / "a"), "--more", str(texts / "b"), "--held-out", "20", "--out", str(out)]
    shown = printed(main, command)
    record = json.loads((out / "word-pairs.json").read_text())
    for code in ("de", "fr"):
        for part in ("train", "validation"):
            pairs, counts = read_aligned(out, part)[code], record["counts"][code][part]
            # Everything left stays, and names are gone.
            assert (len(pairs), sum(len(pair.links) for pair in pairs)) == (counts["linked"], counts["one_to_one"])
            assert counts["aligned"] > counts["different"] >= counts["one_to_one"] > 0
            found = [(pair.english[i], pair.other[j]) for pair in pairs for i, j in pair.links]
            assert sum(source[1:] == target[1:] for source, target in found) > 0.8 * len(found)
        total = sum(counts["one_to_one"] for counts in record["counts"][code].values())
        assert f"{total:,}" in shown
    assert "already exists" in refused(main, command)


def test_links_of_another_aligner(texts, printed, refused):
    """As of fast_align: it reads the words that are written first, and its links are read by the same command."""
    links, out = texts / "links", texts / "out"
    command = ["--data", str(texts / "a"), "--held-out", "20", "--links", str(links), "--out", str(out)]
    assert "write the links of their lines to en-xx.links there" in " ".join(printed(main, command).split())
    assert not out.exists()
    lines = (links / "en-de.words").read_text().splitlines()
    assert all(len(line.split(" ||| ")) == 2 for line in lines)
    # The target, which begins with a mark, is in reverse order.
    lengths = [len(line.split(" ||| ")[0].split()) for line in lines]
    written = [" ".join(f"{i}-{n - i}" for i in range(n)) + "\n" for n in lengths]
    (links / "en-de.links").write_text("".join(written))
    assert main(command) == 0
    record = json.loads((out / "word-pairs.json").read_text())
    assert record["links"] == str(links)
    pairs = [pair for part in ("train", "validation") for pair in read_aligned(out, part)["de"]]
    found = [(pair.english[i][1:], pair.other[j][1:]) for pair in pairs for i, j in pair.links]
    assert found
    assert all(source == target for source, target in found)
    command[-1] = str(texts / "other")
    assert "is not the text of de with these options" in refused(main, [*command, "--validation", "0.3"])
    (links / "en-de.links").write_text("".join(written[:-1]))
    assert "line i belongs to line i" in refused(main, command)
