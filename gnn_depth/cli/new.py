"""``gnn-depth new``: create a file for a new part and a file for its tests."""

import importlib.util
import keyword
import re
import shlex
from pathlib import Path
from typing import Literal

from gnn_depth.cli.catalogue import catalogue
from gnn_depth.cli.errors import UsageError

# MyPart and my_part in the templates stand for the names of the class and of the part.
TEMPLATES = Path(__file__).parent / "templates"


def main(
    kind: Literal["norm", "layer", "init", "skip"],
    name: str,
    *,
    kind_of: Literal["feature", "score", "weight"] | None = None,
    output: str = "",
) -> int:
    """Create a file with a new part that works from the start, and a file with its tests.

    Args:
        kind: norm, layer, init or skip.
        name: Class name, such as MyNorm; the part is then called my_norm.
        kind_of: What a norm acts on: feature (default), score or weight.
        output: Folder for the two files.
    """
    if kind_of and kind != "norm":
        raise UsageError(f"--kind-of {kind_of} is an option of norms, not of a {kind}.")
    template = f"{kind_of or 'feature'}_norm" if kind == "norm" else kind
    word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})", "_", name).lower()
    if not re.fullmatch(r"[A-Z]\w*", name, re.ASCII) or keyword.iskeyword(word):
        raise UsageError(f"{name!r} cannot be the name of a class: name one such as MyNorm.")
    part, tests = Path(output, f"{word}.py"), Path(output, f"test_{word}.py")
    known = catalogue([]).parts(kind).get(word)
    if known:
        raise UsageError(f"{kind} {word!r} already exists: {known.path}. Choose another name.")
    for file in (part, tests):
        if file.exists():
            raise UsageError(f"{file} exists. Choose another name, or another --output.")
    # A plugin's file is imported under its own name.
    if importlib.util.find_spec(word):
        raise UsageError(f"{part} would hide the installed module {word!r}. Choose another name.")
    for file, source in ((part, f"{template}.py.txt"), (tests, f"test_{template}.py.txt")):
        text = (TEMPLATES / source).read_text(encoding="utf-8")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            # x: never over a file that came meanwhile.
            with file.open("x", encoding="utf-8") as out:
                out.write(text.replace("MyPart", name).replace("my_part", word))
        except OSError as error:
            raise UsageError(f"{file} cannot be written: {error.strerror}.") from error
    layer = "--model.layer gat " if template == "score_norm" else ""
    plugin = shlex.quote(str(part))
    print(
        f"Wrote {part} and {tests}: a small {kind} that works. Put your formula into both, "
        "then run\n\n"
        f"  python -m pytest {shlex.quote(str(tests))}\n"
        f"  gnn-depth fit --plugins {plugin} {layer}--model.{kind} {word}\n"
        f"  gnn-depth list {kind} --plugins {plugin}"
    )
    return 0
