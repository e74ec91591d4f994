"""``lsar-jax explore``: one page to look at text of one's own, before and after a transform of any rank.

    lsar-jax explore --texts mycorpus/ --out explorer.html
    lsar-jax explore --texts mycorpus/ --vectors myvectors/ --out explorer.html

The page needs no server and no network; what it shows is described in ``lsar_jax.explore``. The transforms are fitted
on the text itself, all of it up to ``--count`` sentences of a language.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tyro
from jaxtyping import Float

from lsar_jax.console.output import console
from lsar_jax.corpora.records import is_parquet
from lsar_jax.embeddings.cache import encode_all
from lsar_jax.explorer.contents import DEFAULT_METHODS, explore
from lsar_jax.extras import import_extra
from lsar_jax.files import check_outputs
from lsar_jax.languages import code_or_none
from lsar_jax.options.encoder import EncoderOptions
from lsar_jax.options.user_text import Aligned, UserText, finds_lines, read_user_text, read_user_vectors
from lsar_jax.transforms.methods import METHODS

__all__ = ["Explore"]

if TYPE_CHECKING:
    MethodName = str
else:
    MethodName = tyro.extras.literal_type_from_choices([*METHODS])

# Options of the encoder that lsar-jax fit has, too.
_OF_ENCODER = ("revision", "pooling", "final_norm", "prompt")


@dataclass(frozen=True)
class Explore(EncoderOptions):
    """One page to look at text of one's own, before and after a transform of any rank.

    Attributes:
      texts: folder with a text file per language, or with parallel text of English and other languages; or one file
        with the columns language and text (parquet, .jsonl, .csv or .tsv); by default the folder texts, or the parquet
        file of the vectors.
      vectors: vectors of the text, of any model; by default, the text is encoded. For a folder of text, a folder with
        de.npy, or a folder de that lsar-jax encode wrote, for de.txt, with a vector for each line. For a file, a .npy
        file with a vector for each row, or a parquet file with them in the column vector.
      layers: hidden-state layers to choose from on the page, 0 for the embedding output; without a value, all; by
        default, the one at two thirds of the blocks, and the last.
      cache: folder for embeddings, which tasks of python -m eval read too; by default, none are kept.
      languages: language codes; by default, all that the text has.
      aligned: whether line i has the same content in all files; by default found out from the text.
      count: maximum number of sentences of each language to fit on, drawn at random.
      shown: number of sentences on the page, as many of each language.
      transforms: methods to choose from on the page.
      tsne: whether the page has t-SNE, too; it takes most of the time.
      seed: seed of the draws, of CBIE and of t-SNE.
      out: the page.
      overwrite: replace the page if there is one.
    """

    texts: Path | None = None
    vectors: Path | None = None
    layers: tuple[int, ...] | None = None
    cache: Path | None = None
    languages: tuple[str, ...] = ()
    aligned: Aligned = "auto"
    count: int = 400
    shown: int = 2000
    transforms: tuple[MethodName, ...] = DEFAULT_METHODS
    tsne: bool = False
    seed: int = 0
    out: Path = Path("explorer.html")
    overwrite: bool = False

    # What --help shows.
    essential = (
        "texts", "vectors", "encoder", "languages", "layers", "count", "shown", "transforms", "tsne", "out"
    )  # fmt: skip

    def run(self) -> None:
        """Encodes the text, or reads its vectors, and writes the page."""
        folder = self.texts or (self.vectors if self.vectors and is_parquet(self.vectors) else Path("texts"))
        of_text = [*(option.name for option in fields(EncoderOptions)), "layers", "cache"]
        for option in fields(self):
            if self.vectors and option.name in of_text and getattr(self, option.name) != option.default:
                name = option.name.replace("_", "-")
                raise ValueError(f"--{name} is given, but with --vectors nothing is encoded; omit it")
        if self.out.suffix.lower() not in (".html", ".htm"):  # never that of a text or of vectors
            raise ValueError(f"--out is {self.out}; the page is HTML, so name it with .html, such as explorer.html")
        check_outputs([self.out], overwrite=self.overwrite)
        for module in ("bokeh", "threadpoolctl"):
            import_extra(module, "explore", "the explorer")
        text = read_user_text(folder, self.languages, self.count, self.aligned, self.seed)
        layers: tuple[int, ...] = ()
        opening = encode_options = ""
        x: Mapping[str, Float[np.ndarray, "*layer sentence dim"]]
        if self.vectors is None:
            layers, x, opening, encode_options = self._encoded(text)
        else:
            x = read_user_vectors(self.vectors, folder, text)
        if self.aligned == "auto" and text.aligned and not text.pairs:
            last = {code: rows[-1] if rows.ndim == 3 else rows for code, rows in x.items()}
            text = text if finds_lines(last) else text.not_aligned()
            console.print(f"the text is read as {text.form} (--aligned reads it otherwise)")
        methods = None if self.transforms == DEFAULT_METHODS else self.transforms
        place = folder.resolve()
        fit_options = self._fit_options(folder, text)
        page = explore(
            x, text.sentences, layers=layers, units=text.units if text.aligned else None, methods=methods,
            count=self.shown, tsne=self.tsne, seed=self.seed,
            title=f"Language in {place.name if place.is_dir() else place.stem}", fit_options=fit_options,
            reading="" if fit_options else self._reading(folder, opening, encode_options), opening=opening,
            encode_options=encode_options,
        )  # fmt: skip
        page.save(self.out)
        console.print(f"wrote {self.out}: {page.about}, {page.size / 1e6:.1f} MB; open it in a browser")

    def _fit_options(self, folder: Path, text: UserText) -> str:
        """The options of ``lsar-jax fit`` that read the same text; empty if there are none, as for pairs."""
        place, suffix = (folder, ".txt") if self.vectors is None else (self.vectors, ".npy")
        paths = [path for path in place.glob("*") if path.suffix == suffix or (self.vectors and path.is_dir())]
        paths.sort(key=Path.is_file)  # de.npy is read where de is a folder, too
        found = {code_or_none(path.name.removesuffix(suffix)): path for path in paths}
        if not found.keys() >= {*text.codes} or self.dtype != "float32":
            return ""
        words = [] if self.vectors else ["--encoder", self.encoder, "--max-length", str(self.max_length)]
        for option in () if self.vectors else _OF_ENCODER:
            if (value := getattr(self, option)) not in (None, False):
                words += [f"--{option.replace('_', '-')}", *([] if value is True else [str(value)])]
        return shlex.join([*words, "--data", *(f"{code}={found[code]}" for code in text.codes)])

    def _reading(self, folder: Path, opening: str, encode_options: str) -> str:
        """Python that makes ``x`` as this command does."""
        readers = ["read_user_text", *(["read_user_vectors"] if self.vectors else [])]
        arguments = f"Path({str(folder)!r}), {self.languages!r}, {self.count}, {self.aligned!r}, {self.seed}"
        lines = [
            "from pathlib import Path", "", "import lsar_jax as lj",
            f"from lsar_jax.options.user_text import {', '.join(readers)}", "", f"text = read_user_text({arguments})",
        ]  # fmt: skip
        if self.vectors:
            made = f"x = read_user_vectors(Path({str(self.vectors)!r}), Path({str(folder)!r}), text)"
            return "\n".join([*lines, made])
        encoded = f"encoder.encode(lines, {encode_options.format(language='code')})"
        made = f"x = {{code: {encoded} for code, lines in text.sentences.items()}}"
        return "\n".join([*lines, f"encoder = {opening}", made])

    def _opening(self, prompt: str) -> str:
        """Python that loads the encoder at a layer."""
        given = {name: getattr(self, name) for name in _OF_ENCODER if name != "prompt"}
        given |= {"dtype": self.dtype} if self.dtype != "float32" else {}
        options = [f", {name}={value!r}" for name, value in given.items() if value]
        opened = f"lj.load_encoder({self.encoder!r}, layer={{layer}}{''.join(options)})"
        return f"{opened}.with_prompt({prompt!r})" if prompt or self.prompt is not None else opened

    def _encoded(
        self, text: UserText
    ) -> tuple[tuple[int, ...], dict[str, Float[np.ndarray, "layer sentence dim"]], str, str]:
        """The layers, the embeddings of the text by language, and Python that loads the encoder and that encodes."""
        encoder = self.open(max(self.layers or (), default=None))
        last = encoder.spec.layer
        layers = tuple(sorted({2 * last // 3, last})) if self.layers is None else self.layers or tuple(range(last + 1))
        codes = {code: code for code in text.codes}
        x = encode_all(encoder, text.sentences, layers, self.max_length, codes, self.cache)
        encode_options = f"max_length={self.max_length}" + ", language={language}" * encoder.uses_language
        return layers, x, self._opening(encoder.spec.prompt or ""), encode_options
