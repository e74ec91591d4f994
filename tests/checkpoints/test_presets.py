"""What presets say: as the page lists it, and as mteb's registry knows it."""

from dataclasses import fields
from pathlib import Path

import pytest

from lsar_jax.encoders import PRESETS, Preset
from lsar_jax.models.architectures import ARCHITECTURES
from tests.optional import need

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "encoders.md"


def row(name, preset):
    """The row of a preset in the page's table."""

    def cell(field, text):
        return f"{text} (?)" if field in preset.unchecked else str(text)

    prompts = [prompt.replace("\n", "\\n").replace("|", "\\|") for prompt in preset.prompts]
    cells = {
        "id": preset.id or "not on the Hub",
        "architecture": preset.architecture,
        "millions": preset.millions or "",
        "licence": preset.licence,
        "longest": preset.longest or "no limit",
        "pipeline": preset.pipeline,
        "prompts": ", ".join(f"`{prompt}`" if prompt else "none" for prompt in prompts),
    }
    texts = [f"`{name}`", *(cell(field, text) for field, text in cells.items())]
    return "|" + "".join(f" {text} |" if text else " |" for text in texts)


def test_the_page_lists_them():
    text = PAGE.read_text(encoding="utf-8")
    missing = [line for line in (row(*item) for item in PRESETS.items()) if f"\n{line}\n" not in text]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_of_an_architecture_that_is_read(name):
    preset = PRESETS[name]
    assert preset.architecture in ARCHITECTURES
    assert {field.name for field in fields(Preset)} >= set(preset.unchecked)
    assert [other.id for other in PRESETS.values()].count(preset.id) == 1 or not preset.id


@pytest.mark.slow
def test_licences_and_sizes_are_those_of_mteb():
    """But SONAR's, which is another file, and whose licence is wrong there, and LaBSE's length, 256 in its files."""
    need("mteb")
    import mteb

    known = {meta.name: meta for meta in mteb.get_model_metas()}
    found = 0
    for name, preset in PRESETS.items():
        if meta := known.get(preset.id):
            found += 1
            assert preset.licence == meta.license, name
            assert preset.millions == round(meta.n_parameters / 1e6), name
            lengths = (preset.longest, preset.longest + 2) if preset.longest else (None, float("inf"), 32768)
            assert meta.max_tokens in lengths or name == "labse" or "longest" in preset.unchecked, name
        else:
            said = "licence" in preset.unchecked or not preset.licence or "jina" in preset.id
            assert said or name == "sbert", name  # its card says apache-2.0
    assert found > len(PRESETS) / 2
