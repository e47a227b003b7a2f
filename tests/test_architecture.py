"""Data flows one way, and so do imports: which room may import which is a table, and the table is a test."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "gnn_depth"

MAY_IMPORT = {
    "_version": set(),
    "registry": set(),
    "csr": set(),
    "graph": {"csr"},
    "short_names": {"registry"},
    "nn": {"nn", "registry", "graph", "csr"},
    "data": {"data", "registry", "graph", "csr"},
    "training": {"training", "registry", "nn", "data.base", "runs", "signals"},
    "measurements": set(),
    "diagnostics": {"diagnostics", "nn.parts", "graph", "measurements", "registry"},
    "runs": set(),
    "signals": set(),
    "reports": {"reports", "registry", "measurements", "runs"},
    "sweeps": {"sweeps", "registry", "runs", "_version"},
    "cli": {
        "cli",
        "short_names",
        "registry",
        "graph",
        "nn",
        "data",
        "training",
        "diagnostics",
        "reports",
        "sweeps",
        "runs",
        "signals",
        "_version",
    },
    "testing": {"testing", "registry", "graph", "nn", "diagnostics"},
    "__main__": {"cli"},
}

FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
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
        if not any(name == allowed or name.startswith(f"{allowed}.") for allowed in MAY_IMPORT[room(path)])
    ]
    assert not wrong


def test_every_file_says_what_it_is_for():
    assert not [path for path in FILES if not ast.get_docstring(ast.parse(path.read_text()))]
