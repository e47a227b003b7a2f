"""``gnn-depth new``: create a file for a new part and a file for its tests."""

import importlib.util
import keyword
import re
import shlex
from pathlib import Path

from gnn_depth.cli.catalogue import catalogue
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import Options

# MyPart and my_part in the templates stand for the names of the class and of the part.
TEMPLATES = Path(__file__).parent / "templates"
KINDS = ("norm", "layer", "init", "skip")
ACTS_ON = ("feature", "score", "weight")


def main(argv: list[str]) -> int:
    """Write a small part that works, and its tests."""
    options = parser().parse_args(argv)
    if options.kind_of is not None and options.kind != "norm":
        raise UsageError(
            f"--kind-of {options.kind_of} is an option of norms, not of a {options.kind}."
        )
    template = f"{options.kind_of or 'feature'}_norm" if options.kind == "norm" else options.kind
    class_name, name = names_of(options.name)
    part, tests = options.output / f"{name}.py", options.output / f"test_{name}.py"
    _check_free(options.kind, part, tests)
    for file, source in ((part, f"{template}.py.txt"), (tests, f"test_{template}.py.txt")):
        text = (TEMPLATES / source).read_text(encoding="utf-8")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            # x: never over a file that came meanwhile.
            with file.open("x", encoding="utf-8") as out:
                out.write(text.replace("MyPart", class_name).replace("my_part", name))
        except OSError as error:
            raise UsageError(f"{file} cannot be written: {error.strerror}.") from error
    layer = "--model.layer gat " if template == "score_norm" else ""
    plugin = shlex.quote(str(part))
    print(
        f"Wrote {part} and {tests}: a small {options.kind} that works. Put your formula into both, "
        "then run\n\n"
        f"  python -m pytest {shlex.quote(str(tests))}\n"
        f"  gnn-depth fit --plugins {plugin} {layer}--model.{options.kind} {name}\n"
        f"  gnn-depth list {options.kind} --plugins {plugin}"
    )
    return 0


def parser() -> Options:
    options = Options(
        "new",
        "Create a file with a new part that works from the start, and a file with its tests.",
        "KIND NAME [--kind-of feature|score|weight] [--output FOLDER]",
    )
    options.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    options.add_argument(
        "name", metavar="NAME", help="class name, such as MyNorm; the part is then called my_norm"
    )
    options.add_argument(
        "--kind-of", choices=ACTS_ON, help="what a norm acts on; feature by default"
    )
    options.add_argument(
        "--output", type=Path, default=Path(), metavar="FOLDER", help="folder for the two files"
    )
    return options


def names_of(word: str) -> tuple[str, str]:
    """The names of the class and of the part: ``MyNorm`` and ``my_norm``."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})", "_", word).lower()
    if not re.fullmatch(r"[A-Z]\w*", word, re.ASCII) or keyword.iskeyword(name):
        raise UsageError(f"{word!r} cannot be the name of a class: name one such as MyNorm.")
    return word, name


def _check_free(kind: str, *files: Path) -> None:
    name = files[0].stem
    part = catalogue([]).parts[kind].get(name)
    if part:
        raise UsageError(f"{kind} {name!r} already exists: {part.path}. Choose another name.")
    for file in files:
        if file.exists():
            raise UsageError(f"{file} exists. Choose another name, or another --output.")
    # A plugin's file is imported under its own name.
    if importlib.util.find_spec(name) is not None:
        raise UsageError(
            f"{files[0]} would hide the installed module {name!r}. Choose another name."
        )
