"""Checksums of a user's code, which differ where an edit may change the numbers of a run."""

import ast
import hashlib
import importlib.util
import sys
import sysconfig
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from gnn_depth import registry
from gnn_depth.runs import digest

PLAIN = (bool, int, float, complex, str, bytes, type(None), Tensor, np.ndarray)
# Folders of the standard library and of installed packages.
INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))


# Files


def checksum_of_file(path: Path, module: str) -> str:
    """SHA-256, in hex, of a file of Python and of the user's own files that it imports.

    Args:
        path: The file.
        module: The name under which it is imported: relative imports begin there.
    """
    sums = []
    for file in _with_imports(path, module):
        sums.append(hashlib.sha256(file.read_bytes()).hexdigest())
    if len(sums) == 1:
        return sums[0]
    return digest("".join(sums))


def _with_imports(path: Path, module: str) -> list[Path]:
    """The file, and then those that it imports, directly or through others, in order of name."""
    found: dict[str, Path] = {}
    waiting = [(path, module)]
    while waiting:
        file, name = waiting.pop()
        for imported in _imports(file, name):
            origin = Path(registry.origin(imported) or "")
            is_new = imported not in found and origin != path
            if is_new and origin.is_file() and not _is_installed(origin):
                found[imported] = origin
                waiting.append((origin, imported))
    # Two names may lead to one file.
    others = dict.fromkeys(found[name] for name in sorted(found))
    return [path, *others]


def _imports(path: Path, module: str) -> Iterator[str]:
    """The names of modules, and of what may be modules, that a file imports."""
    is_package = path.name == "__init__.py"
    package = module if is_package else module.rpartition(".")[0]
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # no Python
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            try:
                base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            except ImportError:  # beyond the topmost package: the file cannot be imported
                continue
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            top = registry.origin(name.partition(".")[0])
            if top is None or not _is_installed(Path(top)):
                yield name


def _is_installed(path: Path) -> bool:
    """True if a file belongs to this package, to an installed one, or to the standard library."""
    own = Path(__file__).parents[1]
    return any(path.is_relative_to(folder) for folder in (own, *INSTALLED))


# Objects


def checksum_of_code(value: Any) -> str:
    """SHA-256, in hex, of what a class or a function does, not of its place and documentation.

    Its bytecode counts, that of the user's classes and functions that it uses, and the numbers,
    texts and tensors that it reads. Another version of Python gives another checksum.
    """
    return digest("\n".join(_does(value, _top(value), set())))


def is_written_by_user(value: Any) -> bool:
    """True if a class or a function is neither of this package nor of an installed one."""
    return _is_users_module(_top(value))


def _top(value: Any) -> str:
    """The package, or the module, in which a class or a function is written."""
    return str(getattr(value, "__module__", None)).partition(".")[0]


@cache
def _is_users_module(name: str) -> bool:
    if name in sys.builtin_module_names:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or not _is_installed(Path(file))  # a notebook has no file


def _does(value: Any, home: str, seen: set[int]) -> Iterator[str]:
    """Lines that say what a value does, down to what is neither written by the user nor in the
    package ``home``."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if id(value) in seen:
        return
    is_followed = _top(value) == home or is_written_by_user(value)
    if isinstance(value, PLAIN):
        yield repr(value)
    elif isinstance(value, tuple | list | frozenset):
        for item in value:
            yield from _does(item, home, seen)
    elif isinstance(value, property):
        for function in (value.fget, value.fset):
            yield from _does(function, home, seen)
    elif isinstance(value, type) and is_followed:
        seen.add(id(value))
        yield from _class_does(value, home, seen)
    elif isinstance(value, types.FunctionType) and is_followed:
        seen.add(id(value))
        yield from _function_does(value, home, seen)


def _class_does(cls: type, home: str, seen: set[int]) -> Iterator[str]:
    for base in cls.__bases__:
        yield registry.import_path(base)
        yield from _does(base, home, seen)
    for name, item in sorted(vars(cls).items()):
        # A class that is only moved or documented does the same.
        is_said_elsewhere = name in ("__doc__", "__module__", "__qualname__", "__firstlineno__")
        if not is_said_elsewhere:
            yield name
            yield from _does(item, home, seen)


def _function_does(function: types.FunctionType, home: str, seen: set[int]) -> Iterator[str]:
    yield from _code_does(function.__code__, function.__doc__)
    for value in (function.__defaults__, *(function.__kwdefaults__ or {}).values()):
        yield from _does(value, home, seen)
    for cell in function.__closure__ or ():
        try:
            yield from _does(cell.cell_contents, home, seen)
        except ValueError:  # not filled yet
            continue
    for name in _names_in(function.__code__):
        if name in function.__globals__:
            yield from _does(function.__globals__[name], home, seen)


def _code_does(code: types.CodeType, documentation: str | None = None) -> Iterator[str]:
    # Not repr(code), which holds file, line and address.
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars}"
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_does(constant)
        elif constant != documentation or constant is None:
            yield repr(constant)


def _names_in(code: types.CodeType) -> Iterator[str]:
    """Names that a function and the functions inside it look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)
