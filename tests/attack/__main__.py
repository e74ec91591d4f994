"""Attacks the library at random, and prints by area how many cases were tried, held, were refused and broke.

    python -m tests.attack --cases 1500

A case holds if it ends in the right result, which is that of undamaged input or of a float64 twin; or it is refused in
the library's own words: a ValueError, TypeError or OSError of a few lines. Other exceptions, warnings, more than 20
seconds and other results break it. ``--area NAME --first N --cases 1`` makes one case again.
"""

import argparse
import contextlib
import gzip
import inspect
import io
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import unicodedata
import warnings
from functools import cache, partial
from pathlib import Path

from tests.conftest import TINY  # before jax, whose devices it sets

# isort: split
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file, save_file

import lsar_jax as lj
from lsar_jax.__main__ import main as lsar_jax
from lsar_jax.corpora import labelled
from lsar_jax.encoders.options import EncodeOptions
from lsar_jax.languages import language_code
from tests.attack.damage import flip_bit, truncate
from tests.embeddings.made_folder import SPEC, made_folder
from tests.rewriting import rewrite
from tests.train.runs import write_labelled

CODES, DIM = ("de", "en", "zh"), 8
TEXT = ("--encoder", TINY, "--layer", "1")
# Parts of other libraries' messages, which do not say what to do.
FOREIGN = ("broadcast", "has no attribute", "unpack", "list index", "Incompatible shapes", "pickle", "unsafe")


class Broke(Exception):
    """The library did what it must not."""


class Refused(Exception):
    """The library refused the input in its own words."""


class Killed(BaseException):
    """A job was stopped."""


def expect(right, what):
    if not right:
        raise Broke(what)


def allowed(call, *names):
    """Returns what a call returns; Refused for a clear error, which has one of ``names`` if there are any."""
    try:
        return call()
    except (ValueError, TypeError, OSError) as error:
        text = str(error)
        # Another library's subclasses, such as UnicodeDecodeError, are not in our words.
        clear = isinstance(error, OSError) or type(error).__module__.startswith("lsar_jax")
        clear = clear or type(error) in (ValueError, TypeError)
        clear = clear and 0 < len(text.splitlines()) < 24 and not any(part in text for part in FOREIGN)
        expect(clear and any(name in text for name in names or [""]), f"{type(error).__name__}: {text}")
        raise Refused(text) from error


def command(*words, names=()):
    """Runs ``lsar-jax``; Refused if it ends with one line of error."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(printed):
        try:
            status = lsar_jax([str(word) for word in words])
        except SystemExit as end:
            raise Refused from end
    error = printed.getvalue()
    expect(not status or (error.startswith("error: ") and error.count("\n") == 1), f"not one line of error: {error}")
    allowed(lambda: failed(ValueError(error)) if status else None, *names)


def failed(error):
    raise error


@cache
def tiny():
    return lj.load_encoder(TINY, layer=1)


def close(x, y, atol=1e-3):
    return np.shape(x) == np.shape(y) and np.allclose(np.asarray(x, float), np.asarray(y, float), rtol=atol, atol=atol)


def drawn(rng, items):
    return list(items)[rng.integers(len(items))]


def texts(rng, count):
    return [f"{word} {' '.join(str(row))}" for row, word in enumerate(rng.choice(list("abcdefgh"), count))]


def vectors(rng, count=24):
    return {code: rng.standard_normal((count, DIM)).astype("f4") + place for place, code in enumerate(CODES)}


# The same numbers in another form, and arrays that are no embeddings.
LAYOUTS = {
    "fortran": np.asfortranarray, "strided": lambda x: np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2],
    "reversed": lambda x: x[::-1].copy()[::-1], "big-endian": lambda x: x.astype(">f4"), "float64": np.copy,
    "float16": lambda x: x.astype("f2"), "jax": lambda x: jnp.asarray(x, jnp.float32),
    "unaligned": lambda x: np.frombuffer(b"." + x.astype("f4").tobytes(), "f4", offset=1).reshape(x.shape),
    "read-only": lambda x: np.frombuffer(x.tobytes()).reshape(x.shape), "ties": lambda x: np.repeat(x[::4], 4, 0),
    "subclass": lambda x: x.view(type("Vectors", (np.ndarray,), {})), "zero row": lambda x: x * (x[:, :1] != x[3, 0]),
}  # fmt: skip
BAD = {
    "nan": lambda x: np.where(x == x[2, 3], np.nan, x), "infinity": lambda x: np.where(x == x[2, 3], -np.inf, x),
    "too large": lambda x: np.where(x == x[2, 3], 1e39, x), "masked": lambda x: np.ma.array(x, mask=x > 1),
    "records": lambda x: np.zeros(len(x), [("x", "f4")]), "dates": lambda x: x.astype("M8[s]"), "iterator": iter,
    "wider": lambda x: np.concatenate([x, x], 1), "no rows": lambda x: x[:0], "number": lambda x: np.float32(3),
    "list": np.ndarray.tolist, "one row": lambda x: x[0], "no width": lambda x: x[:, :0], "none": lambda x: None,
    "three axes": lambda x: x[None], "text": lambda x: "abc", "dict": lambda x: {1: x}, "buffer": memoryview,
    **{str(kind): partial(np.ndarray.astype, dtype=kind) for kind in (bool, int, complex, object, str)},
}  # fmt: skip
CALLS = {
    "center": lambda x, y: lj.transforms.fit_center({"de": x, "en": y})(x, "de"),
    "lsar": lambda x, y: lj.transforms.fit_lsar({"de": x, "en": y, "zh": y + 1}, rank=1)(x),
    "lir": lambda x, y: lj.transforms.fit_lir({"de": x, "en": y})(x, "de"),
    "whitening": lambda x, y: lj.transforms.fit_whitening({"de": x, "en": y})(x, "de"),
    "leace": lambda x, y: lj.transforms.fit_leace({"de": x, "en": y})(x),
    "moments": lambda x, y: lj.Moments.from_embeddings(x).mean,
    "nearest": lambda x, y: lj.retrieval.nearest(x, y, k=3)[0],
    "candidates": lambda x, y: lj.retrieval.nearest(y, x, k=3)[0],
    "similarity": lj.retrieval.similarity,
    "ranks": lambda x, y: lj.retrieval.candidate_ranks(x, y, np.zeros((len(x), 1), int)),
    "mine": lambda x, y: lj.mining.mine(x, y, k=2).score,
    "isoscore": lambda x, y: lj.geometry.isoscore(x),
}


def cosines(x, y):
    x, y = (z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300) for z in (x, y))
    return -np.sort(-(x @ y.T), axis=1)[:, :3]


TWINS = {
    "center": lambda x, y: x - x.mean(0), "moments": lambda x, y: x.mean(0), "nearest": cosines,
    "candidates": lambda x, y: cosines(y, x),
}  # fmt: skip


def arrays(folder, rng, note):
    x, y = rng.standard_normal((2, 24, DIM)) + rng.integers(3)
    call, kinds = drawn(rng, CALLS), drawn(rng, [LAYOUTS, BAD])
    kind = drawn(rng, kinds)
    note(f"{call} of {kind}")
    given = kinds[kind](x)
    found = allowed(lambda: CALLS[call](given, y))
    expect(kinds is LAYOUTS or (kind == "wider" and call in ("moments", "isoscore")), "was taken")
    expect(close(found, TWINS.get(call, CALLS[call])(np.array(np.asarray(given), float), y)), "is not that of float64")


JUNK = (
    None, True, False, -1, 0, 1, 2, 10**30, 1.5, 0.5, -0.5, float("nan"), float("inf"), 1e-300, "", "x", "de", "mean",
    "\udc80", b"de", [], [1], ["de"], (), (1, 2), {}, {"de": 1}, {"de"}, object(), np.int64(2), np.float32(0.5), print,
)  # fmt: skip


def fits(value, kind):
    """Whether a value may be one of an annotation."""
    types = {"None": type(None), "bool": bool, "int": int | np.integer, "float": int | np.integer | float | np.floating}
    types |= {"str": str, "Literal": str} | dict.fromkeys(("Sequence", "Iterable", "tuple", "Any", "Array"), object)
    return any(name in kind and isinstance(value, given) for name, given in types.items()) and not (
        isinstance(value, bool) and not any(name in kind for name in ("bool", "Any"))
    )


def options(folder, rng, note):
    x = vectors(rng)
    methods = ("center", "lsar", "lir", "whitening", "leace", "cbie", "identifier")
    calls = [(getattr(lj.transforms, f"fit_{name}"), (x,)) for name in methods]
    calls += [(call, (x["de"], x["en"])) for call in (lj.retrieval.nearest, lj.mining.mine, lj.retrieval.similarity)]
    calls += [(lj.Moments.from_embeddings, (x["de"],)), (lj.load_encoder, (TINY,)), (tiny().encode, (["abc"],))]
    call, given = drawn(rng, calls)
    parameters = inspect.signature(call).parameters.values()
    kinds = {part.name: str(part.annotation) for part in parameters if part.kind is part.KEYWORD_ONLY}
    kinds |= {name: str(kind) for name, kind in EncodeOptions.__annotations__.items()} if call == tiny().encode else {}
    name, value = drawn(rng, sorted(kinds.keys() - {"mesh"}) or ["unknown"]), drawn(rng, JUNK)
    note(f"{call.__name__} with {name}={value!r}")
    found = allowed(lambda: call(*given, **{name: value}))
    expect(fits(value, kinds[name]), f"was taken for {kinds[name]}")
    expect(not isinstance(found, np.ndarray) or np.isfinite(found).all(), "is not finite")


def sentences(folder, rng, note):
    parts = [*"ab é한語🎉ﬁ\0\t\n\r", "e\u0301", "\u1112\u1161", *"\u2028\ufeff\u200d\u202e", "[SEP]", "[PAD]"]
    made = ["".join(rng.choice(parts, rng.integers(12))) for _ in range(rng.integers(1, 6))]
    if wrong := rng.random() < 0.3:
        made[rng.integers(len(made))] = drawn(rng, ["\udc80", None, 5, b"a", ["a"], float("nan"), np.array("a")])
    given = drawn(rng, [list, tuple, iter, lambda x: (one for one in x), lambda x: np.array([*x, None], object)[:-1]])
    note(repr(made))
    x = allowed(lambda: tiny().encode(given(made)))
    expect(not wrong, "was taken")
    alone = np.stack([tiny().encode(one) for one in made])
    difference = np.linalg.norm(x - alone, axis=1) / np.linalg.norm(alone, axis=1)
    expect(np.isfinite(x).all() and (difference < 1e-5).all(), f"differs from the sentence alone: {difference}")


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


left = None


def before_change(event, arguments):
    """Raises Killed before the n-th change of a file with a relative path, and before all later ones."""
    global left
    if left is None or event not in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"):
        return
    path = os.fspath(arguments[0]) if isinstance(arguments[0], str | os.PathLike) else "/"
    # A dead process has no lock.
    reads = event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if not reads and not os.path.isabs(path) and not path.endswith("lock"):
        left -= 1
        if left < 0:
            raise Killed


ENCODE = ("encode", "in.txt", "out", *TEXT, "--shard-rows", "4")
MINE = ("mine", "a", "b", "out", "--block", "1024", "--k", "2")
JOBS = (
    (ENCODE, ENCODE), (ENCODE, (*ENCODE, "--format", "parquet")), ((*ENCODE, "--store", "float16"), ENCODE),
    (MINE, MINE), (MINE, (*MINE, "--overwrite")), (MINE, (*MINE, "--k", "3", "--overwrite")),
    (MINE, (*MINE, "--margin", "distance", "--overwrite")),
)  # fmt: skip


def in_new_folder(job, stops=()):
    """Runs a job in a folder of inputs, after one that was stopped; returns its files and the number of changes."""
    global left
    with tempfile.TemporaryDirectory(prefix="attack-") as name, contextlib.chdir(name):
        rng = np.random.default_rng(0)
        Path("in.txt").write_text("".join(f"{line}\n" for line in texts(rng, 14)))
        for name in "ab" if "mine" in job[0] else "":
            made_folder(Path(name), vectors(rng, 1030)["de"], texts(rng, 1030), rows=700)
        try:
            for stop in stops:
                left = stop
                with contextlib.suppress(Killed, Refused):
                    command(*job[0])
            left = 1 << 30
            command(*job[-1])
            changes = (1 << 30) - left
        finally:
            left = None
        out = Path("out")
        return {file.name: file.read_bytes() for file in (out.iterdir() if out.is_dir() else [out])}, changes


whole_job = cache(in_new_folder)


def jobs(folder, rng, note):
    first, second = drawn(rng, JOBS)
    changes = whole_job((first,))[1]
    stops = [int(rng.integers(changes)) for _ in range(rng.integers(1, 4))]
    note(f"{first[0]} stopped before changes {stops} of {changes}, then with {second[len(first) :]}")
    try:
        found = in_new_folder((first, second), stops)[0]
    except Refused as error:
        # One that is finished, or was begun with other options.
        known = ["already exists"] + ["begun with other options"] * (first is not second)
        expect(any(part in str(error) for part in known), f"does not go on: {error}")
        raise
    wrong = [name for name, content in whole_job((second,))[0].items() if found.get(name) != content]
    expect(not wrong and found.keys() == whole_job((second,))[0].keys(), f"ends in {sorted(found)}, other are {wrong}")


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


def languages(folder, rng, note):
    known = [
        "de", "deu", "de-AT", "DE", "deu_Latn", "zh", "cmn", "zh_Hant", "zho_Hant", "nb", "no", "nor", "nob", "sr-Latn",
        "x-law", "tl", "fil", "he", "iw", "arb_Arab", "fiu-vro", "roa-rup", "bat-smg", "be-x-old", "zh-min-nan",
        "map-bms", "nds-nl", "cbk-zam", "zh-classical", "zh-yue", "crh", "fr",
    ]  # fmt: skip
    junk = None, float("nan"), 1, True, b"de", ("de",), "", " ", "klingon", "d", "de fr", "und", "\udc80", "a" * 999
    keys = [drawn(rng, known if rng.random() < 0.7 else junk) for _ in range(2)]
    keys[1] = "fr" if repr(keys[0]) == repr(keys[1]) else keys[1]
    note(f"{keys!r:.80}")
    x, y = rng.standard_normal((2, 9, DIM)) + 1
    transform = allowed(lambda: lj.transforms.fit_center({keys[0]: x, keys[1]: y}))
    expect(all(isinstance(key, str) and key in known for key in keys), "was taken")
    codes = {language_code(key) for key in keys}
    expect(set(transform.languages) == codes and len(codes) == 2, f"became {transform.languages}")
    expect(not {"fiu", "roa", "bat", "map", "nor", "nob"} & codes, f"became {codes}")
    expect({language_code(code) for code in codes} == codes, f"{codes} are not canonical")
    for key, rows in zip(keys, (x, y), strict=True):
        expect(close(transform(rows, key), rows - rows.mean(0)), "has another mean")


def labels(folder, rng, note):
    task = drawn(rng, ["pos", "ner", "xnli"])
    read = {"pos": labelled.read_parsed, "ner": labelled.read_tagged, "xnli": labelled.read_inference}[task]
    path = Path(write_labelled(folder, task, "de", 12, int(rng.integers(99))))
    expected, lines = read(path), path.read_bytes().split(b"\n")
    row = int(rng.integers(1, len(lines) - 2))
    cells = lines[row].split(b"\t")
    cell = int(rng.integers(len(cells)))
    values = [b"\xff", b"", b"_", b"0", b"-1", b"99", b"\xc2\xb2", b"1.5", b"root", b"B-", b"a b"]
    kind = drawn(rng, ["crlf", "bom", "ends", "column", "repeated", "joined", *values])
    note(f"{task}: {kind!r} in line {row + 1}, column {cell + 1}")
    cells[cell : cell + 1] = [] if kind == "column" else [kind] if kind in values else [cells[cell]]
    lines[row : row + 1] = {"repeated": [lines[row]] * 2, "joined": []}.get(kind, [b"\t".join(cells)])
    content = (b"\r\n" if kind == "crlf" else b"\n").join(lines) + b"\n\n" * (kind == "ends")
    path.write_bytes(b"\xef\xbb\xbf" * (kind == "bom") + content)
    found = allowed(lambda: read(path), path.name)
    expect(found == expected or kind not in ("crlf", "bom", "ends"), "was read otherwise")
    expect(kind != b"\xff", "was read")
    for sentence in found["de"] if task == "pos" else []:
        heads = (0, *sentence.heads)
        for _ in heads:  # to the root
            heads = [heads[head] for head in heads]
        expect(sentence.heads.count(0) == 1 and not any(heads), f"has the heads {sentence.heads}")


AREAS = {
    area.__name__: area
    for area in (arrays, options, sentences, saved_files, text, folders, jobs, checkpoints, languages, labels)
}


def attack(area, number, seed=0):
    """Makes a case; returns ``held``, ``refused`` or how it broke."""
    rng, notes = np.random.default_rng([seed, list(AREAS).index(area), number]), []
    signal.signal(signal.SIGALRM, lambda *_: failed(Broke("takes more than 20 s")))
    signal.alarm(20)
    try:
        with tempfile.TemporaryDirectory(prefix="attack-") as folder, warnings.catch_warnings(action="error"):
            AREAS[area](Path(folder), rng, notes.append)
    except Refused:
        return "refused"
    except (Exception, Killed) as error:
        return f"{'; '.join(notes)}: {type(error).__name__} {error}"
    finally:
        signal.alarm(0)
    return "held"


def main(arguments=None):
    """Runs the cases, and returns 1 if one broke."""
    parser = argparse.ArgumentParser("python -m tests.attack")
    parser.add_argument("--cases", type=int, default=1500, help="number of cases, over all areas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--area", choices=AREAS, help="only this area")
    parser.add_argument("--first", type=int, default=0, help="number of the first case of an area")
    given = parser.parse_args(arguments)
    logging.getLogger("lsar_jax").setLevel(logging.ERROR)
    names, total = [given.area] if given.area else list(AREAS), np.zeros(4, int)
    print("area        ", *(f"{name:>8}" for name in ("tried", "held", "refused", "broke")))
    for place, name in enumerate(names):
        numbers = range(given.first, given.first + len(range(place, given.cases, len(names))))
        ends = [attack(name, number, given.seed) for number in numbers]
        for number, end in zip(numbers, ends, strict=True):
            if end not in ("held", "refused"):
                print(f"--area {name} --seed {given.seed} --first {number}: {end:.400}")
        held, refused = ends.count("held"), ends.count("refused")
        counts = np.array([len(ends), held, refused, len(ends) - held - refused])
        total += counts
        print(f"{name:12}", *(f"{count:8}" for count in counts), flush=True)
    print(f"{'all':12}", *(f"{count:8}" for count in total))
    return int(total[3] > 0)


sys.addaudithook(before_change)

if __name__ == "__main__":
    sys.exit(main())
