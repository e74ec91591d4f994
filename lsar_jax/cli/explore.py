"""``lsar-jax explore``: one page to look at text, before and after a transform of any rank.

    lsar-jax explore mycorpus/ --out explorer.html
    lsar-jax explore mycorpus/ --vectors myvectors/ --out explorer.html

The page needs no server and no network; what it shows is described in ``lsar_jax.explore``. The transforms are fitted
on the text itself, all of it up to ``--count`` sentences of a language. In the folder of a report on the same encoder
or vectors, the page opens at what that recommends.
"""

import shlex
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from lsar_jax.console.output import console
from lsar_jax.corpora.records import is_parquet
from lsar_jax.encoders import SentenceEncoder
from lsar_jax.extras import import_extra
from lsar_jax.files import check_outputs
from lsar_jax.measures.results import Result, read_results
from lsar_jax.options.text_folder import TextFolderOptions
from lsar_jax.options.texts import texts_of
from lsar_jax.options.user_text import UserText
from lsar_jax.report.embedded_text import embed
from lsar_jax.report.explorer import explore
from lsar_jax.report.page_kit import REPORT, RESULTS, TRANSFORM, Usage, filled, usage_of
from lsar_jax.report.sliders import DEFAULT_METHODS
from lsar_jax.transforms import Transform
from lsar_jax.transforms.methods import METHODS

__all__ = ["Explore"]

if TYPE_CHECKING:
    MethodName = str
else:
    MethodName = tyro.extras.literal_type_from_choices([*METHODS])

# Options of the encoder that lsar-jax fit has, too.
_OF_ENCODER = ("revision", "adapter", "pooling", "final_norm", "prompt")
# Fields of an encoder that its results name.
_SPACE = ("revision", "pooling", "dim", "final_norm", "prompt")


@dataclass(frozen=True)
class Explore(TextFolderOptions):
    """One page to look at your text, before and after a transform of any rank.

    Attributes:
      layers: hidden-state layers to choose from on the page, 0 for the embedding output; without a value, all; by
        default, the one at two thirds of the blocks, or that of a report beside the page, and the last.
      count: maximum number of sentences of each language to fit on, drawn at random; the page shows 2,000 in all.
      transforms: methods to choose from on the page.
      tsne: whether the page has t-SNE, too; it takes most of the time.
      out: the page; in the folder of a report, it opens at the map that this recommends.
    """

    count: int = 400
    transforms: tuple[MethodName, ...] = DEFAULT_METHODS
    tsne: bool = False
    out: Path = Path("explorer.html")

    # What --help shows.
    essential = ("texts", "vectors", "encoder", "languages", "layers", "count", "transforms", "tsne", "out")

    def run(self) -> None:
        """Encodes the text, or reads its vectors, and writes the page."""
        self.check_vectors()
        if self.out.suffix.lower() not in (".html", ".htm"):  # never a file of text or of vectors
            raise ValueError(f"--out is {self.out}; the page is HTML, so name it with .html, such as explorer.html")
        check_outputs([self.out], overwrite=self.overwrite)
        for module in ("bokeh", "jinja2", "threadpoolctl"):
            import_extra(module, "report", "the explorer")
        text = self.read_text()
        encoder = None if self.vectors else self.open(max(self.layers or (), default=None))
        best = self._recommended(encoder)
        layers = () if encoder is None else self._layers(encoder.spec.layer, best)
        embedded = embed(self, text, encoder, layers, cache=self.cache)
        text = embedded.text
        page = explore(
            embedded.x, text.sentences, layers=layers, units=text.units if text.aligned else None,
            methods=None if self.transforms == DEFAULT_METHODS else self.transforms, tsne=self.tsne, title=self.title,
            show_progress=True,
        )  # fmt: skip
        usage = usage_of(self, encoder, min(layers, default=0))
        usage = replace(usage, fit_options=self._fit_options(text), reading=self._reading(usage))
        shown = ("layer", "transform", "parameters")
        # A function of the user's is not known.
        recommended = best and {name: getattr(best, name) for name in shown} | {"known": best.transform in METHODS}
        report = REPORT * (self.out.parent / REPORT).is_file()
        page = replace(page, usage=usage, data={**page.data, "report": report, "recommended": recommended})
        page.save(self.out)
        console.print(f"wrote {self.out}: {page.about}, {page.size / 1e6:.1f} MB; open it in a browser")

    def _recommended(self, encoder: SentenceEncoder | None) -> Result | None:
        """A result of what a report beside the page recommends for the same encoder or vectors; None without one."""
        folder = self.out.parent
        finished = all((folder / name).is_file() for name in (REPORT, RESULTS))
        results = [of for of in read_results(folder / RESULTS) if of.task == "report"] if finished else []
        if encoder is None:
            results = [of for of in results if self.vectors and Path(of.encoder).resolve() == self.vectors.resolve()]
        else:
            results = [of for of in results if all(getattr(of, name) == getattr(encoder.spec, name) for name in _SPACE)]
        if not (folder / TRANSFORM).is_file():  # the best without a map, if any search was measured
            results = [of for of in results if of.shown and of.transform == "original"]
            return max(results, key=lambda of: of.value, default=None)
        digests = Transform.load(folder / TRANSFORM).digests
        return next((of for of in results if tuple(fit.split(", ")[-1] for fit in of.fits) == digests), None)

    def _layers(self, last: int, best: Result | None) -> tuple[int, ...]:
        """The layers on the page, of an encoder whose last loaded layer is ``last``."""
        inner = 2 * last // 3 if best is None or best.layer == last else best.layer
        return tuple(sorted({inner, last})) if self.layers is None else self.layers or tuple(range(last + 1))

    def _fit_options(self, text: UserText) -> str:
        """The options of ``lsar-jax fit`` that read the same text; empty if there are none, as for pairs."""
        items = self.items if self.vectors is None else [str(self.vectors)]
        codes: set[str] = set()
        with suppress(ValueError):  # of vectors beside the text
            codes = {*texts_of(items, None if self.vectors else self.text).files} if not text.pairs else set()
        of_file = self.vectors and self.vectors.is_file() and not is_parquet(self.vectors)
        if of_file or self.languages or self.dtype != "float32" or codes != {*text.codes}:
            return ""
        words = [] if self.vectors else ["--encoder", self.encoder, "--max-length", str(self.max_length)]
        for option in () if self.vectors else _OF_ENCODER:
            if (value := getattr(self, option)) not in (None, False):
                words += [f"--{option.replace('_', '-')}", *([] if value is True else [str(value)])]
        words += ["--text", self.text] if self.text and not self.vectors else []
        return shlex.join([*words, "--texts", *items])

    def _reading(self, usage: Usage) -> str:
        """Python that makes ``x`` as this command does."""
        vectors = f"Path({str(self.vectors)!r})"
        return filled("reading.txt", options=self, usage=usage, items=[*self.items], vectors=vectors).strip()
