"""Data flows one way, and so do imports: which room may import which is a table, and the table is a
test. So is how large each room may be."""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "gnn_depth"

BASE = {"registry", "ranges"}  # names, ranges and messages, which everything may use
BUILDER = BASE | {"builder", "part_specs", "yaml_limits"}
GRAPH = {"graph", "csr", "shard", "torch_internals"}
RUNS = {"runs", "signals", "measurements", "config_file"}

MAY_IMPORT = {
    "_version": set(),
    "ranges": set(),
    "registry": {"ranges"},
    "yaml_limits": set(),
    "torch_internals": set(),
    "csr": set(),
    "shard": {"graph"},
    "graph": {"csr", "torch_internals"},
    "runs": set(),
    "signals": set(),
    "measurements": BASE,
    "part_specs": BASE,
    "builder": BUILDER,
    "config_file": {"registry", "part_specs", "yaml_limits"},
    "nn": {"nn"} | BUILDER | GRAPH,
    "data": {"data"} | BUILDER | GRAPH,
    "diagnostics": {"diagnostics", "nn.neurons", "nn.parts", "measurements"} | BUILDER | GRAPH,
    "training": {"training", "nn", "data", "diagnostics"} | BUILDER | GRAPH | RUNS,
    "sweeps": {"sweeps", "registry", "runs", "signals", "_version"},
    "reports": {"reports", "registry", "measurements", "runs", "yaml_limits"},
    "testing": {"testing", "registry", "graph", "nn", "diagnostics"},
    "cli": {"cli", "nn", "data", "training", "diagnostics", "reports", "sweeps", "_version"}
    | BUILDER
    | GRAPH
    | RUNS,
    "__main__": {"cli"},
}

#: Concrete parts that are somebody's default. No other file of the stack, training or diagnostics
#: names one.
DEFAULTS = {
    "nn/stack.py": {"nn.graph_dropouts", "nn.layers.gcn", "nn.skips"},
    "training/module.py": {"nn.inits"},
}
PARTS = ("nn.layers", "nn.norms", "nn.skips", "nn.inits", "nn.graph_dropouts")

FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def room(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def name(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


@cache
def nodes(path):
    """All of a file's imports."""
    every = ast.walk(ast.parse(path.read_text()))
    return [node for node in every if isinstance(node, ast.Import | ast.ImportFrom)]


@cache
def imports(path):
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            # `from gnn_depth.data import base` names a module by its last part
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name.removeprefix("gnn_depth.") for name in found if name.startswith("gnn_depth.")}


def test_rooms_import_only_what_the_table_allows():
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in FILES
        for name in sorted(imports(path))
        if not any(
            name == allowed or name.startswith(f"{allowed}.") for allowed in MAY_IMPORT[room(path)]
        )
    ]
    assert not wrong


def test_no_module_imports_itself_through_others_not_even_for_types():
    found = {name(path): imports(path) for path in FILES}
    # `from gnn_depth.data import base` imports data.base, not what the folder's __init__ exports
    folders = {
        module: {one.rpartition(".")[0] for one in of if one in found}
        for module, of in found.items()
    }
    open_modules = {
        module: {one for one in of if one in found} - folders[module]
        for module, of in found.items()
    }
    while leaves := [module for module, found in open_modules.items() if not found]:
        for leaf in leaves:
            del open_modules[leaf]
        open_modules = {module: found - set(leaves) for module, found in open_modules.items()}
    assert not open_modules  # what is left imports one another, or something that does


def test_the_stack_training_and_diagnostics_name_no_concrete_part_but_defaults():
    inside = tuple(f"{part.replace('.', '/')}/" for part in PARTS)
    wrong = []
    for path in FILES:
        place = path.relative_to(PACKAGE).as_posix()
        if (
            place == "nn/__init__.py"
            or place.startswith(inside)
            or room(path) not in ("nn", "training", "diagnostics")
        ):
            continue
        named = {imported for imported in imports(path) if imported.startswith(PARTS)}
        allowed = DEFAULTS.get(place, set())
        wrong += [
            f"{place} imports {one}"
            for one in named
            if not any(one.startswith(default) for default in allowed)
        ]
    assert not wrong


def imported_packages():
    """The top-level names of everything outside the standard library that the package imports."""
    found = set()
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"gnn_depth"}


def test_every_import_is_a_declared_dependency():
    tomllib = pytest.importorskip("tomllib", reason="in the standard library from 3.11 on")
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        listed += extra
    normal = {re.match(r"[\w.-]+", each)[0].lower().replace("-", "_") for each in listed}
    homes = packages_distributions()
    for module in imported_packages() - {"triton"}:  # a PyTorch for GPUs brings it along
        names = {name.lower().replace("-", "_") for name in homes.get(module, [module])}
        assert names & normal, f"{module} is imported and not declared"


#: Code tokens that each room may have, without comments and docstrings: who adds, shrinks. The
#: package as a whole may have LARGEST.
LARGEST = 189_600
BUDGETS = {
    "nn": 45_226,
    "data": 24_545,
    "training": 28_450,
    "diagnostics": 31_850,
    "testing": 6_475,
    "sweeps": 7_750,
    "reports": 11_780,
    "cli": 16_196,
    "the files beside the rooms": 17_420,
}
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def docstring_lines(tree):
    found: set[int] = set()
    for node in ast.walk(tree):
        is_documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if is_documented and ast.get_docstring(node) is not None:
            found.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return found


def tokens(path):
    text = path.read_text()
    documented = docstring_lines(ast.parse(text))
    every = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(one.type not in NO_CODE and one.start[0] not in documented for one in every)


def test_no_room_is_larger_than_its_budget():
    sizes = Counter()
    for path in PACKAGE.rglob("*.py"):
        here = room(path)
        sizes[here if here in BUDGETS else "the files beside the rooms"] += tokens(path)
    too_large = {name: size for name, size in sizes.items() if size > BUDGETS[name]}
    assert not too_large
    assert sizes.total() <= LARGEST
