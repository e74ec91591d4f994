"""Attacks the library at random, and prints by area how many cases were tried, held, were refused and broke.

    python -m tests.attack --cases 1500

A case holds if it ends in the right result, which is that of undamaged input or of a float64 twin; or it is refused in
the library's own words: a ValueError, TypeError or OSError of a few lines. Other exceptions, warnings, more than 20
seconds and other results break it. ``--area NAME --first N --cases 1`` makes one case again.
"""

import argparse
import logging
import signal
import sys
import tempfile
import warnings
from pathlib import Path

# Before jax, whose devices it sets.
from tests.attack.outcome import DIM, Broke, Killed, Refused, allowed, close, drawn, expect, failed

# isort: split
import numpy as np

import lsar_jax as lj
from lsar_jax.languages import language_code
from tests.attack.of_files import checkpoints, folders, saved_files, text
from tests.attack.of_jobs import jobs
from tests.attack.of_values import arrays, options, sentences
from tests.train.runs import write_labelled
from train.finetune import conllu_ner_xnli as labelled


def languages(folder, rng, note):
    known = [
        "de", "deu", "de-AT", "DE", "deu_Latn", "zh", "cmn", "zh_Hant", "zho_Hant", "nb", "no", "nor", "nob", "sr-Latn",
        "x-law", "tl", "fil", "he", "iw", "arb_Arab", "fiu-vro", "roa-rup", "bat-smg", "be-x-old", "zh-min-nan",
        "map-bms", "nds-nl", "cbk-zam", "zh-classical", "zh-yue", "crh", "fr",
    ]  # fmt: skip
    junk = [None, float("nan"), 1, True, b"de", ("de",), *("", " ", "klingon", "d", "de fr", "\udc80", "a" * 999)]
    junk += ["und", "fiu", "mul"]
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


if __name__ == "__main__":
    sys.exit(main())
