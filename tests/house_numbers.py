"""The numbers of the house: its size and shape, its guards, and the words of its docstrings and pages."""

import ast
import io
import re
import tokenize
from collections import Counter

__all__ = ["house_numbers"]

SOURCE = ("lsar_jax", "train", "eval")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SILENT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def lines_of(*nodes):
    return {line for node in nodes for line in range(node.lineno, node.end_lineno + 1)}


def code_lines(text, tree):
    """The numbers of the lines without docstrings, comments, blank lines, imports and ``__all__``."""
    left_out = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    left_out += [node.body[0] for node in ast.walk(tree) if isinstance(node, DOCUMENTED) and ast.get_docstring(node)]
    left_out += [
        node for node in tree.body if isinstance(node, ast.Assign) and "__all__" in ast.unparse(node.targets[0])
    ]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {n for t in tokens if t.type not in SILENT for n in range(t.start[0], t.end[0] + 1)} - lines_of(*left_out)


def guard_lines(tree):
    """The lines of an ``if`` or ``except`` that raises, and of functions named check, refuse, require or reject."""
    guards = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and any(isinstance(inner, ast.Raise) for inner in node.body):
            guards |= set(range(node.lineno, node.body[-1].end_lineno + 1))
        raises = isinstance(node, ast.ExceptHandler) and any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
        names = ("check", "refuse", "require", "reject")
        if raises or (isinstance(node, FUNCTIONS) and node.name.lstrip("_").startswith(names)):
            guards |= lines_of(node)
    return guards


def house_numbers(root):
    """Returns each number by its name, of the checkout in ``root``."""
    n, classes, words = Counter(), Counter(), 0
    for path in sorted(path for top in (*SOURCE, "tests") for path in (root / top).rglob("*.py")):
        text, top = path.read_text(encoding="utf-8"), path.relative_to(root).parts[0]
        tree = ast.parse(text)
        code = code_lines(text, tree)
        n[top] += len(code)
        if top == "tests":
            continue
        n["long files"] += text.count("\n") > 250
        n["guards"] += len(guard_lines(tree) & code)
        classes.update({node.name.lstrip("_") for node in tree.body if isinstance(node, ast.ClassDef)})
        for node in ast.walk(tree):
            n["raises"] += isinstance(node, ast.Raise)
            of_cli = isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lsar_jax.cli")
            n["cli"] += of_cli and top != "lsar_jax"
            if isinstance(node, FUNCTIONS):
                n["long functions"] += len(code & lines_of(node)) > 40
                n["wide functions"] += len([*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs]) > 8
            if isinstance(node, DOCUMENTED) and (doc := ast.get_docstring(node)):
                n["begins"] += doc.split()[0] in ("What", "Of", "That", "Those")
                n["pointing"] += len(re.findall(r"\b(?:that|those) of\b", doc))
    source = sum(n[top] for top in SOURCE)
    for path in [
        *root.glob("*.md"),
        # Without the copies in docs of pages beside it, which building the site writes.
        *(path for top in (*SOURCE, "docs", "tests") for path in (root / top).glob("*/**/*.md")),
        root / "docs" / "index.md",
    ]:
        words += len(path.read_text(encoding="utf-8").split())
    return {
        "code lines of lsar_jax": n["lsar_jax"],
        "code lines of all source": source,
        "test code per code": round(n["tests"] / source, 2),
        "files over 250 lines": n["long files"],
        "functions over 40 lines": n["long functions"],
        "functions over 8 parameters": n["wide functions"],
        "raises per 1,000 code lines": round(1000 * n["raises"] / source, 1),
        "share of guards in code, %": round(100 * n["guards"] / source, 1),
        "class names used twice": sum(count > 1 for count in classes.values()),
        "imports of lsar_jax.cli from train and eval": n["cli"],
        "words of Markdown": words,
        "words of Markdown per code line": round(words / source, 2),
        "docstrings that begin with What, Of, That, Those": n["begins"],
        "'that of' and 'those of' in docstrings": n["pointing"],
    }
