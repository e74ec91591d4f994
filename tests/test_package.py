"""The version, and that the examples and commands of the pages work."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import lsar_jax as lj
from lsar_jax.extras import import_extra, install_hint
from tests.commands import parsed
from tests.optional import need

ROOT = Path(__file__).parents[1]
# Pages with examples to copy.
PAGES = tuple(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*/*.md")))
    if "```python" in path.read_text(encoding="utf-8")
)
COMMANDS = sorted(
    {
        (str(path.relative_to(ROOT)), re.sub(r"\s+#.*", "", line))
        for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*/*.md")))
        if not path.name.startswith("own-")  # their commands need what the pages add
        for block in re.findall(r"```sh\n(.*?)```", path.read_text(encoding="utf-8"), re.S)
        for line in block.replace("\\\n", " ").splitlines()
        if re.match(r"(python -m (eval|train\.\w+)|lsar-jax) ", line) and not re.search(r"[${|>]", line)
    }
)


def test_version():
    assert version("lsar_jax") == lj.__version__
    assert f"\nversion: {lj.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_extras():
    """Errors name extras that exist, and the report and evaluations import what theirs install."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    paths = (path for name in ("lsar_jax", "eval", "train") for path in (ROOT / name).rglob("*.py"))
    code = {path: path.read_text(encoding="utf-8") for path in paths}
    extra = re.compile(r"(?:(?:import|missing)_extra\(\s*[^,]+, |extra=)\"(\w+)\"")
    named = {name for text in code.values() for name in extra.findall(text)}
    assert {"demo", "hub", "laser", "tfds"} <= named <= set(extras)
    modules = {"scikit-learn": "sklearn", "markdown-it-py": "markdown_it"}
    for extra, place in (("report", "lsar_jax/report"), ("eval", "eval")):
        for package in (re.split(r"[><=[]", requirement)[0] for requirement in extras[extra]):
            module = modules.get(package, package)
            imported = re.compile(rf"^ *(import|from) {module}\b|import_extra\(\"{module}\b", re.M)
            texts = (text for path, text in code.items() if path.is_relative_to(ROOT / place))
            assert any(map(imported.search, texts)), package


def test_a_package_that_cannot_be_imported_is_told_from_one_that_is_absent(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import absent_package")
    monkeypatch.syspath_prepend(tmp_path)
    hint = "this needs {0}: pip install 'lsar_jax[hub]' (in a checkout: pip install -e '.[hub]')"
    for name, end in (
        ("absent_package", ""),
        ("broken_package", "; importing {0} failed: No module named 'absent_package'"),
    ):
        with pytest.raises(ImportError) as error:
            import_extra(name, "hub", "this")
        assert str(error.value) == (hint + end).format(name)
        assert str(error.value.__cause__) == "No module named 'absent_package'"
    hint = "eval needs scikit-learn: pip install 'lsar_jax[eval]' (in a checkout: pip install -e '.[eval]')"
    assert install_hint(ModuleNotFoundError("", name="sklearn"), "eval") == hint
    broken = ImportError("libgomp.so:\n no such file", name="sklearn.utils")
    assert install_hint(broken, "eval") == f"{hint}; importing sklearn failed: libgomp.so: no such file"
    assert install_hint(ImportError("why", name="other"), "eval") == "why"


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)


@pytest.mark.slow
@pytest.mark.usefixtures("bundled_once")
@pytest.mark.parametrize(
    "code", [b for page in PAGES for b in blocks(page) if not re.search("intfloat/|results/|jax.config", b)]
)
def test_examples_of_the_pages_run(code, tmp_path, monkeypatch):
    # The examples as they are printed, on the shortest paragraphs of the declaration in six languages; the program of
    # jit, which takes more, is run by tests/transforms/test_cores.py.
    whole = lj.corpora.udhr
    six = ("ar", "de", "en", "sw", "th", "zh")

    def shortest(part="all", languages=six):
        return {code: sorted(text, key=len)[:4] for code, text in whole(part, languages).items()}

    monkeypatch.setattr(lj.corpora, "udhr", shortest)
    monkeypatch.chdir(tmp_path)
    # What a page measures ten times runs here as well if it runs once.
    exec(compile(code.replace("range(10)", "range(1)"), "a page", "exec"), {})


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_commands_of_the_pages_parse(page, command):
    need("optax")
    parsed(command)
