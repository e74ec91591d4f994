"""Attacks with files and folders that are damaged, or something else."""

from tests.conftest import TINY  # before jax, whose devices it sets

# isort: split
import gzip
import json
import os
import shutil
import unicodedata
import warnings
from functools import partial

import numpy as np
from safetensors.numpy import load_file, save_file

import lsar_jax as lj
from tests.attack.damage import flip_bit, truncate
from tests.attack.outcome import CODES, DIM, TEXT, allowed, close, command, drawn, expect, texts, tiny, vectors
from tests.embeddings.made_folder import SPEC, made_folder
from tests.rewriting import rewrite

PLACES = ("bit", "bit", "cut", "link", "pipe", "folder", "gone", "loop", "other", "more", "empty")


def damage(path, kind, rng):
    """Damages a file, or puts something else in its place."""
    if kind in ("bit", "cut"):
        return {"bit": flip_bit, "cut": truncate}[kind](path, rng)
    there = path.rename(path.parent.parent / "there")
    return {
        "link": lambda: path.symlink_to(there), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir, "gone": str,
        "loop": lambda: path.symlink_to(path.name), "other": lambda: path.write_bytes(rng.bytes(300)),
        "more": lambda: path.write_bytes(there.read_bytes() + b"x"), "empty": path.touch,
    }[kind]()  # fmt: skip


def foreign_array(rng, arrays, header=None):
    """Replaces an array by one of another type, shape or value, or leaves it out."""
    name = drawn(rng, sorted(arrays))
    value = arrays.pop(name)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        changes = [value.astype(kind) for kind in ("f8", "f2", "i4", "?")] + [value[..., :-1], value[None], value[:0]]
        changes += [np.full_like(value, number) for number in (np.nan, 3e38)] + [None]
    if (changed := drawn(rng, changes)) is not None:
        arrays[name] = np.ascontiguousarray(changed)


def changed_value(path, rng):
    """Changes a random value in a file of JSON, or leaves it out; returns what was done."""
    whole = tree = json.loads(path.read_text())
    way = [drawn(rng, tree if isinstance(tree, dict) else range(len(tree)))]
    while isinstance(tree[way[-1]], dict | list) and tree[way[-1]] and rng.random() < 0.8:
        tree = tree[way[-1]]
        way.append(drawn(rng, tree if isinstance(tree, dict) else range(len(tree))))
    junk = (None, True, -1, 0, 1, 3, 7.5, 1e308, 10**12, float("nan"), "", "x", "../../x", "a" * 999, [], [1], {"a": 1})
    tree[way[-1]] = value = drawn(rng, junk)
    if gone := rng.random() < 0.2:
        del tree[way[-1]]
    path.write_text(json.dumps(whole))
    return f"{way} " + ("is left out" if gone else f"is {value!r:.30}")


def saved_files(folder, rng, note):
    x, kind = vectors(rng), drawn(rng, [*PLACES, "array"])
    what = drawn(rng, ["center", "lsar", "auto", "moments", "pooled"])
    path = folder / "in" / "file"
    path.parent.mkdir()
    if of_moments := what in ("moments", "pooled"):
        sums = {code: lj.Moments.from_embeddings(rows, second_moment=True) for code, rows in x.items()}
        lj.save_moments(path, sums if what == "moments" else lj.pool_moments(sums), source=SPEC)
    else:
        fit = lj.transforms.fit_lsar if what == "lsar" else lj.transforms.fit_center
        transform = fit(x, source=SPEC)
        transform = transform.with_identifier(lj.transforms.fit_identifier(x)) if what == "auto" else transform
        transform.save(path)

    def read():
        if of_moments:
            return [part.mean for part in lj.load_moments(path)[0].values()]
        return lj.Transform.load(path)(x["de"], "auto" if what == "auto" else "de")

    expected = read()
    note(f"{what}: {kind}")
    rewrite(path, partial(foreign_array, rng)) if kind == "array" else damage(path, kind, rng)
    found = allowed(read)
    expect(kind == "array" or (kind == "link" and close(found, expected, 0)), "was read")
    expect(np.isfinite(found).all(), "is not finite")


SUFFIXES = ("txt", "csv", "tsv", "TXT", "txt.gz", "jsonl", "ndjson", "json", "jsonl.gz", "JSONL", "parquet")
# Kinds of text: whether plain text, JSON lines and parquet must be read (r), refused (x) or either (?), or have none.
KINDS = {
    "good": "rrr", "crlf": "rr-", "bom": "rr-", "blank": "rrr", "form": "rrr", "nul": "r?r", "byte": "xx-",
    "cut": "??x", "column": "-xx", "value": "-xx", "surrogate": "-x-", "utf-16": "xxx", "empty": "xxx", "array": "xxx",
    "long": "xx-", "pointer": "xxx",
}  # fmt: skip


def written_text(path, kind, family, lines):
    """Writes sentences, or what is none of them."""
    name = "other" if kind == "column" else "text"
    if family == 2 and "r" in KINDS[kind][2] + "r" * (kind in ("column", "value", "cut")):
        import pyarrow.parquet

        table = pyarrow.table({name: list(range(6)) if kind == "value" else lines})
        pyarrow.parquet.write_table(table, path)
        return path.read_bytes()
    rows = [json.dumps({"id": row, name: line}, ensure_ascii=False) for row, line in enumerate(lines)]
    content = "".join(f"{row}\n" for row in (rows if family else lines)).encode()
    return {
        "crlf": content.replace(b"\n", b"\r\n"), "bom": b"\xef\xbb\xbf" + content, "empty": b"",
        "blank": content.replace(b"\n", b"\n\n" if family else b"\n"), "byte": content[:2] + b"\xff" + content[2:],
        "value": content.replace(b'"text": "', b'"text": 5, "b": "'), "utf-16": content.decode().encode("utf-16"),
        "surrogate": content.replace(b'"text": "', b'"text": "\\ud800'), "array": b"\x93NUMPY\1\0v\0{",
        "long": content + b"a" * (1 << 24),
        "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    }.get(kind, content)  # fmt: skip


def text(folder, rng, note):
    suffix = drawn(rng, SUFFIXES)
    family = 2 if suffix == "parquet" else int("json" in suffix.lower())
    kind = drawn(rng, [kind for kind, verdicts in KINDS.items() if verdicts[family] != "-"])
    use, path, lines = drawn(rng, ["encode", "fit", "apply"]), folder / f"in.{suffix}", texts(rng, 6)
    note(f"{use} of .{suffix}: {kind}")
    made = {"blank": "", "nul": "a\0b", "form": unicodedata.normalize(drawn(rng, ["NFC", "NFD"]), "é ệ 한국")}
    lines[2] = made.get(kind, lines[2])
    content = written_text(path, kind, family, lines)
    content = gzip.compress(content, mtime=0) if suffix.endswith("gz") and kind != "pointer" else content
    path.write_bytes(content[: rng.integers(1, len(content))] if kind == "cut" else content)
    encoder, exact, names = tiny(), KINDS[kind][family] == "r", (path.name,)
    if use == "encode":
        command("encode", path, folder / "out", *TEXT, names=names)
        found = lj.embeddings.open(folder / "out")
        expect(not exact or found.sentences().texts == lines, f"was read as {found.sentences().texts}")
        expect(not exact or close(found[:], encoder.encode(lines)), "has other vectors")
    elif use == "apply":
        x = {code: rng.standard_normal((9, encoder.dim)) for code in CODES}
        transform = lj.transforms.fit_center(x, source=encoder.spec)
        transform.save(folder / "t")
        command("apply", folder / "t", path, folder / "x.npy", *TEXT, "--language", "de", names=names)
        expected = encoder.with_transform(transform).encode(lines, language="de")
        expect(not exact or close(np.load(folder / "x.npy"), expected), "has other vectors")
    else:
        (folder / "en.txt").write_text("a b\nc d\n")
        command("fit", "center", folder / "c", "--data", f"de={path}", f"en={folder / 'en.txt'}", *TEXT, names=names)
        found = lj.Transform.load(folder / "c")(np.zeros((1, encoder.dim), "f4"), "de")
        mean = encoder.encode([line for line in lines if line]).mean(0)
        expect(not exact or close(found[0], -mean), "has another mean")
    expect(KINDS[kind][family] != "x", "was read")


def folders(folder, rng, note):
    x, y = (made_folder(folder / name, vectors(rng, 40)["de"], texts(rng, 40), rows=16) for name in "ab")
    expected, lines = x[:], x.sentences().texts
    kind, use = drawn(rng, ["value", "value", "swap", "mixed", *PLACES]), drawn(rng, ["open", "apply", "fit", "mine"])
    names = sorted(path.name for path in x.folder.iterdir())  # the manifest first
    path = x.folder / (names[0] if kind == "value" else drawn(rng, names[kind in ("swap", "mixed") :]))
    note(f"{use}: {kind} of {path.name}")
    if kind == "value":
        note(changed_value(path, rng))
    elif kind == "mixed":
        shutil.copy(y.folder / path.name, path)
    elif kind == "swap":
        other = x.folder / drawn(rng, [name for name in names if name[:3] == path.name[:3] and name != path.name])
        content, other_content = path.read_bytes(), other.read_bytes()
        path.write_bytes(other_content), other.write_bytes(content)
    else:
        damage(path, kind, rng)
    transform = lj.transforms.fit_lsar({"de": expected, "en": expected + 1}, source=SPEC)
    transform.save(folder / "t")

    def opened():
        found = lj.embeddings.open(x.folder)
        found.check()
        return found[:], found.sentences().texts

    where = {"names": ("/a", "encoder")}
    if use == "open":
        found = allowed(opened, "/a")
        expect(close(found[0], expected, 0) and found[1] == lines, "has other rows")
    elif use == "apply":
        command("apply", folder / "t", x.folder, folder / "x.npy", **where)
        expect(close(np.load(folder / "x.npy"), transform(expected)), "has other vectors")
    elif use == "fit":
        command("fit", "center", folder / "c", "--data", f"de={x.folder}", f"en={y.folder}", **where)
        found = lj.Transform.load(folder / "c")(np.zeros((1, DIM), "f4"), "de")
        expect(close(found[0], -expected.mean(0)), "has another mean")
    else:
        command("mine", x.folder, y.folder, folder / "p.jsonl", "--k", "2", **where)
        found = [json.loads(line)["source"] for line in (folder / "p.jsonl").read_text().splitlines()]
        pairs = lj.mining.mine(expected, y[:], k=2)
        expect(found == [lines[row] for row in pairs.source[pairs.score > 0]], "has other pairs")


def checkpoints(folder, rng, note):
    golden = TINY.parent / drawn(rng, ["bert", "distilbert", "xlm-roberta", "labse", "static", "qwen3"])
    new, given = shutil.copytree(golden, folder / "in" / "e"), ["abc", "de f", ""]
    whole = lj.load_encoder(golden)
    expected = whole.encode(given)
    path = drawn(rng, [path for path in sorted(new.rglob("*")) if path.suffix in (".json", ".safetensors")])
    kind = drawn(rng, [*PLACES, *["value"] * 20])
    note(f"{golden.name}/{path.relative_to(new)}: {kind}")
    if kind != "value":
        damage(path, kind, rng)
    elif path.suffix == ".json":
        note(changed_value(path, rng))
    else:
        foreign_array(rng, tensors := load_file(path))
        save_file(tensors, path)
    encoder = allowed(lambda: lj.load_encoder(new))
    x = allowed(lambda: encoder.encode(given))
    expect(np.isfinite(x).all(), "is not finite")
    expect(encoder.spec.revision != whole.spec.revision or close(x, expected), "has the old revision and other vectors")
    expect(close(encoder.encode(given[1]), x[1], 1e-4), "depends on the neighbours")
