"""One page to look at text of one's own: where its sentences are, before and after a transform of any rank.

    python -m eval explore --texts mycorpus/ --out explorer.html
    python -m eval explore --texts mycorpus/ --vectors myvectors/ --out explorer.html

The page needs no server and no network; what it shows is described in ``lsar_jax.explore``. The transforms are fitted
on the text itself, all of it up to ``--count`` sentences of a language.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from eval.bias.user_text import Aligned, UserText, finds_lines, read_user_text
from eval.command import RunOptions
from eval.evaluate import encode_texts
from eval.methods import check_methods
from lsar_jax import corpora
from lsar_jax.cli.console import console
from lsar_jax.cli.inputs import open_vectors
from lsar_jax.explorer.contents import DEFAULT_METHODS, ShownMethod, explore
from lsar_jax.extras import import_extra
from lsar_jax.files import check_outputs

__all__ = ["Explore"]

ByLayer = dict[str, np.ndarray]


@dataclass(frozen=True)
class Explore(RunOptions):
    """One page to look at text of one's own, before and after a transform of any rank.

    Attributes:
      folder: folder with a text file per language, or with parallel text of English and other languages.
      vectors: folder with vectors of these lines, of any model: for de.txt, de.npy with a vector for each line, or a
        folder de that lsar-jax encode wrote; by default, the text is encoded.
      languages: language codes; by default, all that the folder has.
      aligned: whether line i has the same content in all files; by default found out from the text.
      count: maximum number of sentences of each language to fit on, drawn at random.
      shown: number of sentences on the page, as many of each language.
      transforms: methods to choose from on the page.
      tsne: whether the page has t-SNE, too; it takes most of the time.
      seed: seed of the draws and of t-SNE.
      out: the page.
      overwrite: replace the page if there is one.
    """

    folder: Annotated[Path, tyro.conf.arg(name="texts")] = Path("texts")
    vectors: Path | None = None
    languages: tuple[str, ...] = ()
    aligned: Aligned = "auto"
    count: int = 400
    shown: int = 2000
    transforms: tuple[ShownMethod, ...] = DEFAULT_METHODS
    tsne: bool = False
    seed: int = 0
    out: Path = Path("explorer.html")

    name = "explore"
    # What --help shows.
    essential = (
        "folder", "vectors", "encoder", "languages", "layers", "count", "shown", "transforms", "tsne", "out"
    )  # fmt: skip

    def run(self) -> None:
        """Encodes the text, or reads its vectors, and writes the page."""
        check_outputs([self.out], overwrite=self.overwrite)
        import_extra("bokeh", "explore", "the explorer")
        text = read_user_text(self.folder, self.languages, self.count, self.aligned, self.seed)
        layers: tuple[int, ...] = ()
        if self.vectors is None:
            encoder = self.open_encoder()
            layers = self.layers or tuple(range(encoder.spec.layer + 1))
            check_methods(self.transforms, {}, text.codes, min(map(encoder.dim_of, layers)))
            texts = {("text", code): sentences for code, sentences in text.sentences.items()}
            encoded = encode_texts(encoder, texts, layers, self.max_length, self.cache)
            x = {code: encoded["text", code] for code in text.codes}
        else:
            x = self._read(self.vectors, text)
        if self.aligned == "auto" and text.aligned and not text.pairs:
            last = {code: rows[-1] for code, rows in x.items()}
            text = text if finds_lines(last) else text.not_aligned()
            console.print(f"the text is read as {text.form} (--aligned reads it otherwise)")
        page = explore(
            x, text.sentences, layers=layers, units=text.units if text.aligned else None, methods=self.transforms,
            count=self.shown, tsne=self.tsne, seed=self.seed, title=f"Language in {self.folder.name}",
        )  # fmt: skip
        page.save(self.out)
        console.print(f"wrote {self.out}: {page.about}, {page.size / 1e6:.1f} MB; open it in a browser")

    def _read(self, folder: Path, text: UserText) -> ByLayer:
        """The vectors of the sentences, ``[1, sentence, dim]``, found by their lines."""
        for option in fields(RunOptions):
            if option.name not in ("out", "overwrite") and getattr(self, option.name) != option.default:
                name = option.name.replace("_", "-")
                raise ValueError(f"--{name} is given, but with --vectors nothing is encoded; omit it")
        if text.pairs:
            raise ValueError(f"--vectors needs a file per language in {self.folder}, such as de.txt; it has pairs")
        x = {}
        for code, path in corpora.language_files(self.folder, ".txt", text.codes).items():
            found = [place for place in (folder / f"{path.stem}.npy", folder / path.stem) if place.exists()]
            if not found:
                raise FileNotFoundError(f"there is no {path.stem}.npy and no folder {path.stem} in {folder}")
            vectors, lines = open_vectors(found[0]), [line.strip() for line in corpora.lines(path)]
            if len(vectors) != len(lines):
                raise ValueError(f"{found[0]} has {len(vectors)} vectors, and {path} {len(lines)} lines")
            place_of = {line: number for number, line in reversed(list(enumerate(lines)))}
            rows = np.array([place_of[sentence] for sentence in text.sentences[code]])
            x[code] = np.asarray(vectors)[rows][None]
        return x
