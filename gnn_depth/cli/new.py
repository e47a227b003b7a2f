"""``gnn-depth new``: the file of a part of one's own, and the file of its tests."""

import importlib.util
import keyword
import re
import shlex
from pathlib import Path

from gnn_depth.cli import templates
from gnn_depth.cli.catalogue import catalogue
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import Options

ACTS_ON = ("feature", "score", "weight")


def main(words: list[str]) -> int:
    """Write a part that works and does little, and its tests.

    Args:
        words: What stands behind ``gnn-depth new``.

    Raises:
        UsageError: The name is none, or something is there already.
    """
    options = parser().parse_args(words)
    if options.kind_of is not None and options.kind != "norm":
        raise UsageError(f"--kind-of {options.kind_of} says where a norm acts, and a {options.kind} is none.")
    what = f"{options.kind_of or 'feature'} norm" if options.kind == "norm" else options.kind
    name, stem = names_of(options.name)
    part, tests = options.output / f"{stem}.py", options.output / f"test_{stem}.py"
    if options.output.exists() and not options.output.is_dir():
        raise UsageError(f"--output {options.output} is a file, and should be a folder.")
    _check_free(options.kind, part, tests)
    _write(part, templates.PARTS[what], name, stem)
    _write(tests, templates.TESTS[what], name, stem)
    print(_next_steps(options.kind, what, part, tests, stem))
    return 0


def names_of(word: str) -> tuple[str, str]:
    """The name of the class and of the part: ``MyNorm`` and ``my_norm``, whichever of the two is given.

    Raises:
        UsageError: It is no name of a class.
    """
    stem = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})", "_", word).lower()
    name = word if word[:1].isupper() else "".join(piece.capitalize() for piece in word.split("_"))
    if not re.fullmatch(r"[A-Za-z]\w*", word, re.ASCII) or keyword.iskeyword(stem):
        raise UsageError(f"{word!r} is no name of a class: take letters, digits and underscores, as in MyNorm.")
    return name, stem


def _check_free(kind: str, *files: Path) -> None:
    stem = files[0].stem
    if part := catalogue([])[kind].get(stem):
        raise UsageError(f"{kind} {stem!r} exists: {part.path}. Choose another name.")
    for file in files:
        if file.exists():
            raise UsageError(f"{file} is there already, and stays as it is: take another name, or another --output.")
    if importlib.util.find_spec(stem) is not None:
        raise UsageError(f"{files[0]} would hide the installed module {stem!r}: take another name.")


def _write(file: Path, template: str, name: str, stem: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as out:
            out.write(template.replace("MyPart", name).replace("my_part", stem))
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.") from error


def _next_steps(kind: str, what: str, part: Path, tests: Path, stem: str) -> str:
    layer = "--model.layer gat " if what == "score norm" else ""
    file, test_file = shlex.quote(str(part)), shlex.quote(str(tests))
    return "\n".join(
        [
            f"wrote {part} and {tests}. It works and does little: put your formula into both, and then",
            "",
            f"  python -m pytest {test_file}",
            f"  gnn-depth fit --plugins {file} {layer}--model.{kind} {stem}",
            f"  gnn-depth list {kind} --plugins {file}",
        ]
    )


def parser() -> Options:
    options = Options(
        "new",
        "Write the file of a part of your own, which works from the start, and the file of its tests.",
        "KIND NAME [--kind-of feature|score|weight] [--output FOLDER]",
    )
    options.add_argument("kind", choices=tuple(templates.KINDS), metavar="KIND", help=", ".join(templates.KINDS))
    options.add_argument("name", metavar="NAME", help="name of the class, as MyNorm; the part is then called my_norm")
    options.add_argument("--kind-of", choices=ACTS_ON, help="of a norm, what it acts on; feature by default")
    options.add_argument("--output", type=Path, default=Path(), metavar="FOLDER", help="where the two files go")
    return options
