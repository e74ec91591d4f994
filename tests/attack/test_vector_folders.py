"""Folders of vectors that are damaged or written by others, and transforms that are already applied to them."""

import json
import shutil
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.files import text_sha256
from tests.attack.test_jobs import ROWS
from tests.embeddings.made_folder import SPEC, made_folder
from tests.optional import need


def test_a_transform_is_applied_once(x, tmp_path):
    """Although a fit on bare arrays does not say what it was fitted on."""
    rows, (de, fr) = tuple(x[:, :30]), (lj.transforms.fit_center({code: x[0] + 1, "en": x[1]}) for code in ("de", "fr"))
    lsar = lj.transforms.fit_lsar({"de": x[0] + 1, "en": x[1]})
    cbie = lj.transforms.fit_cbie({"de": rows[0], "en": rows[1]}, clusters=2, components=1)
    more = de.with_languages(lj.transforms.fit_center({"zh": x[0]}))
    # The second has the same map of en.
    for before, after in ((de, de), (de, fr), (de, more), (de, lsar.then(de)), (de.then(lsar), lsar), (cbie, cbie)):
        spec, texts = SPEC.after(before.name, before.digests), [str(row) for row in range(30)]
        folder = made_folder(Path(mkdtemp(dir=tmp_path), "folder"), rows[0], texts, spec=spec, applied=before.applied)
        with pytest.raises(ValueError, match="is already applied to .*; apply each fit once"):
            folder.check_transform(after)
    # The target of pairs stays as it is, so that a map may come after another.
    for fit in (lj.transforms.fit_shift, lj.transforms.fit_linear_map):
        first = fit({"de": rows})
        moved = np.asarray(first(rows[0], "de"))
        assert len(first.then(fit({"de": (moved + 1, rows[1])})).steps) == 2
        with pytest.raises(ValueError, match="is already (part of|applied to)"):
            first.then(first)


def test_what_a_transform_is_part_of_says_so(tmp_path, refused, tiny):
    rows = [tiny.encode([f"a {word}" for word in words]) for words in ("bcd", "efg")]
    lsar, other = (lj.transforms.fit_lsar({"de": rows[0][n:], "en": rows[1]}) for n in (0, 1))
    encoder, path = tiny.with_transform(lsar), tmp_path / "lsar"
    lsar.save(path)
    for code in ("de", "en"):
        (tmp_path / f"{code}.txt").write_text(f"a {code}\nb c\nd\n")
        lj.embeddings.encode(encoder, [tmp_path / f"{code}.txt"], tmp_path / code)
    de, en, out = (tmp_path / name for name in ("de", "en", "out.tsv"))
    for command in (["apply", path, de, out], ["mine", de, en, out, "--k", "1", "--transform", path]):
        assert "lsar(rank=1) is already applied to" in refused(main, command)
    encoder.to_sentence_transformers(tmp_path / "export")
    exported = lj.load_encoder(tmp_path / "export")
    with pytest.raises(ValueError, match=r"lsar\(rank=1\) is already applied to the encoder export"):
        exported.with_transform(lsar)
    assert exported.with_transform(other).applied == lsar.applied | other.applied
    assert not lj.load_encoder(tmp_path / "export", layer=1).applied
    # Another fit of the same method is another space.
    assert not tiny.with_transform(other).spec.same_space(encoder.spec)


@pytest.fixture(scope="module")
def made_once(x, tmp_path_factory):
    return made_folder(tmp_path_factory.mktemp("made") / "one", x[0, :ROWS], [str(i) for i in range(ROWS)]).folder


@pytest.fixture
def made(made_once, tmp_path):
    """A folder to damage."""
    return Path(shutil.copytree(made_once, tmp_path / "one"))


def changed(path, edit, *, signed=True):
    """Changes a manifest as someone else might, with or without its digest."""
    fields = json.loads(path.read_text())
    edit(fields)
    if signed:
        fields.pop("sha256", None)
        fields["sha256"] = text_sha256(json.dumps(fields))
    path.write_text(json.dumps(fields))


def renamed(shard, old, new):
    shard["files"] = {name.replace(old, new): digest for name, digest in shard["files"].items()}


MANIFESTS = {
    "another folder": lambda m: renamed(m["shards"][0], "vectors", "../../vectors"),
    "a device": lambda m: renamed(m["shards"][0], "vectors-00000.npy", "/dev/zero"),
    "another shard": lambda m: renamed(m["shards"][0], "00000", "00001"),
    "more files": lambda m: m["shards"][0]["files"].update(more="sha256:" + "0" * 64),
    "shards of nothing": lambda m: m.update(shards=None),
    "a field more": lambda m: m["job"].update(more=1),
    "a field less": lambda m: m["job"].pop("devices"),
    "another format": lambda m: m.update(format="lsar_jax embeddings 9"),
    "parquet": lambda m: m["job"].update(format="parquet"),
    **{f"dim {value!r}": lambda m, value=value: m["job"].update(dim=value) for value in (0, -8, 9, 1 << 62)},
    **{f"dtype {value!r}": lambda m, value=value: m["job"].update(dtype=value) for value in ("object", "float16")},
    **{f"rows {value!r}": lambda m, value=value: m["shards"][0].update(rows=value) for value in (0, 23, 25, 1 << 62)},
}  # fmt: skip


@pytest.mark.parametrize("kind", MANIFESTS)
def test_manifests_of_others(kind, made):
    changed(made / "manifest.json", MANIFESTS[kind])
    with pytest.raises(ValueError, match=r"^[^\n]*one/(manifest.json is damaged|vectors-00000.npy holds)[^\n]*$"):
        lj.embeddings.open(made)


def test_a_manifest_that_was_changed(made):
    changed(made / "manifest.json", lambda m: m["job"].update(max_length=9), signed=False)
    with pytest.raises(ValueError, match="manifest.json is damaged, .*or its SHA-256 does not match"):
        lj.embeddings.open(made)


@pytest.mark.parametrize(
    "vectors",
    [np.ones((ROWS, 8), kind) for kind in (np.int8, np.complex64, np.float64, ">f4")]
    + [np.ones((ROWS - 1, 8), np.float32), np.ones(ROWS * 8, np.float32), np.array([None])],
)
def test_vectors_of_others(vectors, made):
    np.save(made / "vectors-00000.npy", vectors)
    with pytest.raises(ValueError, match=r"^[^\n]*vectors-00000.npy (holds|is not a .npy file)[^\n]*$"):
        lj.embeddings.open(made)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[1:], "it has 23 sentences for 24 vectors"),
        (lambda lines: [*lines, lines[0]], "it has 25 sentences for 24 vectors"),
        (lambda lines: [b"{}", *lines[1:]], "there is no 'text'"),
        (lambda lines: [b"3", *lines[1:]], "TypeError"),
        (lambda lines: [b'{"text": 3, "id": "0"}', *lines[1:]], "TypeError"),
        (lambda lines: [b'{"text": "\\ud800", "id": "0"}', *lines[1:]], "surrogates"),
        (lambda lines: [b"\xff", *lines[1:]], "can't decode byte 0xff"),
    ],
)
def test_sentences_of_others(change, message, made):
    path = made / "sentences-00000.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in change(path.read_bytes().splitlines())))
    with pytest.raises(ValueError, match=rf"^[^\n]*sentences-00000.jsonl is damaged: [^\n]*{message}[^\n]*$"):
        lj.embeddings.open(made).sentences()


def test_parquet_of_others(x, tmp_path):
    need("pyarrow")
    one, two, narrow = (
        made_folder(tmp_path / f"{rows}-{dim}", x[0, :rows, :dim], [str(i) for i in range(rows)], format="parquet")
        for rows, dim in ((ROWS, 8), (ROWS - 1, 8), (ROWS, 4))
    )
    one.sentences()
    path = one.folder / "vectors-00000.parquet"
    for other in (two, narrow):
        shutil.copy(other.folder / path.name, path)
        with pytest.raises(ValueError, match="parquet holds .*, but the manifest says float32 of shape"):
            lj.embeddings.open(one.folder)
    path.write_bytes(b"PAR1")
    with pytest.raises(ValueError, match="parquet is damaged: it cannot be read as parquet"):
        lj.embeddings.open(one.folder)
