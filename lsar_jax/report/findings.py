"""The findings of a report in words, each fact once: the answer, and after it the details, from their templates."""

from lsar_jax.report.method_comparison import Comparison
from lsar_jax.report.page_kit import render
from lsar_jax.transforms.methods import SUMMARIES

__all__ = ["answer", "caption", "details"]

# Measured layers and methods that a line names.
_NAMED = 5


def caption(found: Comparison) -> str:
    """The size and form of the text."""
    return f"{found.text.count:,} sentences in {len(found.text.codes)} languages; {found.text.form}."


def answer(found: Comparison) -> list[str]:
    """Returns what was found and what to do, for readers who know none of the measures."""
    return _lines(render("answer.txt", found=found, summaries=SUMMARIES))


def details(found: Comparison) -> list[str]:
    """Returns how sure that is, and what else was found."""
    paragraphs = found.embedded.reference
    copies = sum(len({*found.text.sentences[code]} & {*paragraphs[code]}) for code in paragraphs)
    return _lines(render("details.txt", found=found, named=_NAMED, copies=copies))


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]
