"""The Hub's parquet datasets: what is read, what is fetched for it, and a Hub that is away."""

import logging
import sys
import time

import pytest

from lsar_jax.corpora import row_files
from lsar_jax.corpora.hub_datasets import PINNED, hub
from tests.dataset_hub import ROWS, document, point, sentences, serve, write


@pytest.fixture(scope="module")
def wikipedia(tmp_path_factory):
    """A folder as that of wikimedia/wikipedia: German in two files, English in one."""
    folder = tmp_path_factory.mktemp("hub") / "wikipedia"
    half = ROWS // 2
    for number, part in enumerate((range(half), range(half, ROWS))):
        texts = [document("de", n) for n in part]
        write(folder, f"20231101.de/train-{number:05d}-of-00002.parquet", texts, title=["x" * 900] * half)
    write(folder, "20231101.en/train-00000-of-00001.parquet", [document("en", n) for n in range(ROWS)], rows=ROWS)
    write(folder, "20231101.no/train-00000-of-00001.parquet", [document("no", n) for n in range(100)])
    (folder / "README.md").write_text("a card")
    return folder


@pytest.fixture
def client(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with point(monkeypatch, tmp_path / "cache") as to:
        yield to


@pytest.fixture
def server(wikipedia):
    with serve(wikipedia) as web:
        yield web


@pytest.mark.parametrize("code", ["deu", "en"])
def test_streams_no_more_than_it_needs(code, client, server, wikipedia, monkeypatch):
    client(server.server_address[1])
    # Less than the text of a row group of 500 rows.
    monkeypatch.setattr(row_files, "BUFFER", 1 << 17)
    language = code[:2]
    assert hub("wikimedia/wikipedia", code, count=300) == sentences(language, 300)
    size = sum(file.stat().st_size for file in wikipedia.glob(f"20231101.{language}/*"))
    assert 150 * 900 < server.bytes < 0.25 * size
    # The pinned commit was asked for, and of the files only the first.
    assert server.asked[0].endswith(f"/revision/{PINNED['wikimedia/wikipedia']}")
    assert not any("train-00001" in path for path in server.asked)


def test_goes_on_with_the_next_file(client, server):
    client(server.server_address[1])
    every = hub("wikimedia/wikipedia", "de", revision="main", count=None)
    assert every == sentences("de", 2 * ROWS)
    assert hub("wikimedia/wikipedia", "de", revision="main", count=ROWS + 1) == every[: ROWS + 1]


@pytest.mark.parametrize("kind", ["all", "files"])
def test_a_hub_that_cannot_be_reached_is_given_up_soon(kind, client, server):
    server.fails = kind
    client(server.server_address[1])
    started = time.monotonic()
    what = (
        "run `hf download wikimedia/wikipedia --repo-type dataset --revision b04c8d1ceb2f5cd4588862100d08de323dccfbaa "
        r"--include '20231101.de/\*' --local-dir wikimedia/wikipedia` and copy that folder to wikimedia/wikipedia here"
    )
    with pytest.raises(FileNotFoundError, match=what):
        hub("wikimedia/wikipedia", "deu")
    assert time.monotonic() - started < 10


def test_a_hub_that_goes_away_is_believed(client, server, wikipedia, tmp_path, monkeypatch):
    client(server.server_address[1])
    keep(tmp_path, wikipedia)
    server.fails = "later"
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    with pytest.raises(FileNotFoundError, match=r"cannot be read from the Hugging Face Hub .*503"):
        hub("wikimedia/wikipedia", "de")


def keep(tmp_path, wikipedia):
    """Lays the files out as the Hub's client keeps a download."""
    kept = tmp_path / "cache" / "datasets--wikimedia--wikipedia" / "snapshots"
    kept.mkdir(parents=True)
    (kept / PINNED["wikimedia/wikipedia"]).symlink_to(wikipedia)


def test_what_is_kept_is_used_when_the_hub_is_away(client, server, wikipedia, tmp_path, caplog):
    server.fails = "all"
    client(server.server_address[1])
    keep(tmp_path, wikipedia)
    with caplog.at_level(logging.WARNING, logger="lsar_jax"):
        assert hub("wikimedia/wikipedia", "de", count=5) == sentences("de", 5)
    assert "using the files cached in" in caplog.text


def test_a_folder(wikipedia, tmp_path, monkeypatch):
    assert hub(wikipedia, "ger", count=7) == sentences("de", 7)
    # Put where the error says, it is found by the id.
    (tmp_path / "wikimedia").mkdir()
    (tmp_path / "wikimedia" / "wikipedia").symlink_to(wikipedia)
    monkeypatch.chdir(tmp_path)
    assert hub("wikimedia/wikipedia", "en", count=7) == sentences("en", 7)


def test_other_layouts(tmp_path):
    piece = "ten characters"
    text = f"\n_START_ARTICLE_\nA title\n_START_PARAGRAPH_\n{piece}_NEWLINE_short_NEWLINE_and {piece}\n"
    folder = tmp_path / "wiki40b"
    # As the Hub itself turns datasets into parquet.
    write(folder, "zh-cn/train/0000.parquet", [text])
    write(folder, "zh-cn/train/0001.parquet", [text.replace("and", "und"), None])
    write(folder, "zh-tw/train-00000-of-00001.parquet", ["_START_PARAGRAPH_traditional"])
    write(folder, "zh-cn/test/0000.parquet", ["_START_PARAGRAPH_of the test split"])
    assert hub(folder, "zh") == [piece, f"and {piece}", piece, f"und {piece}"]
    assert hub(folder, "zh-Hant") == ["traditional"]
    assert hub(folder, "zh", split="test") == ["of the test split"]
    # OSCAR's documents are drawn at random.
    write(tmp_path / "oscar", "unshuffled_deduplicated_de/train/0000.parquet", ["a\nb", "c", "d\n\ne"])
    assert hub(tmp_path / "oscar", "de", count=3) == ["d", "e", "c"]


def test_refuses(wikipedia, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = r"known languages are de, en, no"
    for arguments, error, message in [
        ({"language": "fr"}, ValueError, f"language 'fr' is not in .*wikipedia; {known}"),
        ({"split": "test"}, ValueError, "no split 'test' in configuration '20231101.de' of .*: it has train"),
        ({"count": 0}, ValueError, "count is 0; it must be at least 1, or None for all sentences"),
        ({"revision": "main"}, ValueError, "revision 'main' applies to Hub ids only, and .* is a folder"),
        ({"id": "nowhere"}, FileNotFoundError, "nowhere is neither a folder nor a Hub id; known datasets are wiki"),
        ({"id": "google/wiki40b"}, ValueError, "no revision of google/wiki40b is pinned; pass a commit"),
    ]:
        with pytest.raises(error, match=message):
            hub(**{"id": wikipedia, "language": "de", **arguments})


def test_refuses_files(wikipedia, tmp_path):
    folder = tmp_path / "wikipedia"
    first = folder / "20231101.de" / "train-00000-of-00002.parquet"
    first.parent.mkdir(parents=True)
    first.write_bytes((wikipedia / first.relative_to(folder)).read_bytes())
    # What is there suffices, or the next file is named.
    assert len(hub(folder, "de", count=ROWS)) == ROWS
    with pytest.raises(FileNotFoundError, match="there is no train-00001-of-00002.parquet in"):
        hub(folder, "de", count=ROWS + 1)
    first.write_bytes(first.read_bytes()[:-100])
    with pytest.raises(ValueError, match="train-00000-of-00002.parquet of .* cannot be read as parquet"):
        hub(folder, "de")
    write(folder, "20231101.fr/train-00000-of-00001.parquet", [" \n", ""])
    with pytest.raises(ValueError, match="split 'train' of .*wikipedia has no sentence that document_lines keeps"):
        hub(folder, "fr")


def test_needs_pyarrow(wikipedia, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install 'lsar_jax\[hub\]'"):
        hub(wikipedia, "de")
