"""Imports go one way: down the rooms of the library, to train and to eval."""

import ast
import builtins
import dis
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]

# A room may import rooms that stand before it. The order is that of the data through the library, but for moments
# and transforms: they stand before the encoders, because an encoder sums and transforms where it encodes.
ROOMS = (
    # vocabulary and plumbing
    "shapes", "languages", "mesh", "spec", "arrays", "checks", "files", "extras", "array_files", "hub", "processes",
    "program_cache", "console",
    # text -> tokens -> hidden states -> embeddings -> transform -> scores
    "corpora", "tokens", "models", "checkpoints", "moments", "transforms", "geometry", "encoders", "embeddings",
    "retrieval", "functional", "mining", "objectives", "options", "measures", "report",
    "cli", "mteb", "__init__", "__main__",
)  # fmt: skip
# Packages, each of which may import those before it.
PACKAGES = ("lsar_jax", "train", "eval")
# All that the library imports when it is imported, besides the standard library and itself.
# The rooms of commands import what commands need; importing the library does not import them.
HEAVY = ("console", "options", "measures", "report", "cli", "__main__")
LIGHT = {"jax", "flax", "numpy", "jaxtyping", "langcodes", "regex"}


def modules():
    """Every module of the three packages, by dotted name."""
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in files}


MODULES = modules()


def resolve(name):
    """The module that a dotted name stands for; None if it is no module of ours."""
    return next((one for one in (name, f"{name}.__init__") if one in MODULES), None)


def imports(path, *, top_level=False):
    """Yields the dotted names that a file imports, also inside functions unless ``top_level``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if resolve(whole) else node.module


def graph():
    """Each module of ours, and those of ours that it imports."""
    return {name: {found for one in imports(path) if (found := resolve(one))} for name, path in MODULES.items()}


def room(module):
    return module.split(".")[1]


def test_every_room_is_known():
    assert {room(name) for name in MODULES if name.startswith("lsar_jax.")} == set(ROOMS)


def test_contributing_names_every_folder():
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Where things are")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    contents = {name: cells[1] for cells in rows for name in re.findall(r"`([^`]+)`", cells[0])}
    assert not [name for name in contents if not (ROOT / name).is_dir()]
    inside = {path.parent for part in (*PACKAGES, "docs") for path in (ROOT / part).rglob("*.*") if path.is_file()}
    for folder in (path.relative_to(ROOT) for path in inside if path.name != "__pycache__"):
        above = [contents.get(str(parent), "") for parent in folder.parents]
        assert str(folder) in contents or any(f"`{folder.name}`" in text for text in above), folder


def test_rooms_import_only_what_stands_before_them():
    wrong = [
        f"{name} imports {other}"
        for name, others in graph().items()
        for other in others
        if name.startswith("lsar_jax.") and other.startswith("lsar_jax.")
        and ROOMS.index(room(other)) > ROOMS.index(room(name))
    ]  # fmt: skip
    assert not wrong


def test_packages_import_only_what_stands_before_them():
    package = {name: PACKAGES.index(name.split(".")[0]) for name in MODULES}
    wrong = [f"{a} imports {b}" for a, others in graph().items() for b in others if package[b] > package[a]]
    assert not wrong


def test_no_circle():
    assert [*TopologicalSorter(graph()).static_order()]


def test_the_library_is_light_at_module_level():
    own = set(sys.stdlib_module_names) | LIGHT | {"lsar_jax"}
    heavy = [
        f"{name} imports {one}"
        for name, path in MODULES.items()
        if name.startswith("lsar_jax.") and room(name) not in HEAVY
        for one in imports(path, top_level=True)
        if one.split(".")[0] not in own
    ]
    assert not heavy


def test_a_task_imports_itself_alone():
    code = """
import sys
from eval.__main__ import main
try:
    main(["udhr", "--help"])
except SystemExit:
    pass
tasks = {name for name in sys.modules if name.startswith("eval.tasks.")}
print(sorted(tasks), [name for name in ("sklearn", "scipy.stats", "tensorflow_datasets") if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.splitlines()[-1] == "['eval.tasks.udhr'] []"


def test_folders_are_small_enough_to_read():
    for package in PACKAGES:
        for folder in [ROOT / package, *(path for path in (ROOT / package).rglob("*") if path.is_dir())]:
            count = len([path for path in folder.glob("*.py") if path.name != "__init__.py"])
            # An architecture is a file that needs none of the others.
            assert count <= (24 if folder.name == "architectures" else 15), f"{folder} has {count} files"


def code_objects(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            yield from code_objects(constant)


def test_names_are_defined():
    """Each name that a module reads is assigned in it, or Python's; linters skip names, which axes of arrays may be."""
    undefined = []
    for name, path in MODULES.items():
        whole = list(code_objects(compile(path.read_text(encoding="utf-8"), str(path), "exec")))
        read, stored = set(), {"__file__", "__name__", "__doc__", "__path__", "__spec__", "__annotations__"}
        for instruction in (step for code in whole for step in dis.get_instructions(code)):
            read |= {instruction.argval} if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") else set()
            stored |= {instruction.argval} if instruction.opname in ("STORE_NAME", "STORE_GLOBAL") else set()
        undefined += [f"{name}: {missing}" for missing in sorted(read - stored - {*dir(builtins)})]
    assert not undefined
