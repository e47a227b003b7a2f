"""``gnn-depth list``, and every help of a run: ``fit --help``, ``fit --model.norm.help pair``."""

import re
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gnn_depth import registry
from gnn_depth.builder import PartIndex
from gnn_depth.cli import RUNS
from gnn_depth.cli.catalogue import catalogue
from gnn_depth.cli.config import OWN_HELP
from gnn_depth.cli.errors import UsageError
from gnn_depth.config_file import Source
from gnn_depth.part_specs import LIBRARIES, SECTIONS

#: The options of the trainer that `--help` shows; `--help all` shows the others.
SHOWN = ("max_epochs", "max_time", "accelerator", "devices", "precision", "callbacks", "logger")
LIBRARY = ("lightning.", "torch.", "torch_geometric.")
KINDS = tuple(dict.fromkeys((*registry.KINDS, *LIBRARIES)))


def main(kinds: list[str] | None = None, *, plugins: list[str] | None = None) -> int:
    """Show the registered parts of these kinds, or of all: name, options with types and defaults,
    and a summary. `gnn-depth fit --model.KIND.help NAME` and `--data.help NAME` tell more about one
    part.

    Args:
        kinds: Such as norm or layers; by default all that gnn_depth and plugins register.
        plugins: Python files or modules that register parts.
    """
    known = catalogue(Source("--plugins", {"plugins": plugins}).plugins)
    asked = []
    for word in kinds or ():
        asked.append(word.removesuffix("s"))
        if asked[-1] not in KINDS:
            raise UsageError(registry.unknown("kind", word, KINDS))
    print(listing(asked or registry.KINDS, known, only_registered=not asked))
    return 0


def listing(kinds: Iterable[str], known: PartIndex, only_registered: bool = False) -> str:
    """Every part of these kinds, or the registered ones: name, options with types and defaults, and
    the first sentence of its docstring."""
    blocks = []
    for kind in kinds:
        rows = [kind]
        for part in sorted(
            known.parts(kind).values(), key=lambda part: part.path.startswith(LIBRARY)
        ):
            if only_registered and part.path.startswith(LIBRARY):
                continue
            rows.append(f"  {part.shown}({', '.join(map(str, part.options.values()))})")
            rows.append(f"      {_sentence(part.doc)}")
            if not part.path.startswith((*LIBRARY, "gnn_depth.")):
                rows.append(f"      From {part.path}.")
        if len(rows) > 1:
            blocks.append("\n".join(rows))
    return "\n\n".join(blocks)


def _sentence(text: str) -> str:
    """The first sentence of a description, without its markup."""
    sentence = re.split(r"(?<=\.)\s|\n\n", text)[0]
    return " ".join(re.sub(r":\w+:|`", "", sentence).split())


def help_of(command: str, section: str, word: Any, known: PartIndex) -> str:
    """The help that a flag asks for: ``help`` of the command, or ``model.norm.help`` of the kind of
    part in a section or, with the word after it, of one part."""
    if not section:
        return help_of_run(command, known, everything=word == "all")
    kind = SECTIONS[section]
    if word is True:
        return listing([kind], known)
    if "" not in sys.path:
        sys.path.append("")  # it may be a class in a file of this folder
    part = known.find(kind, word)
    about = part.doc.partition("\nArgs:")[0].strip()
    lines = [f"{kind} {part.name} ({part.path})", "", about, ""]
    for option in part.options.values():
        lines += [f"  --{section}.{option}", f"      {option.about}"]
    return "\n".join(lines).rstrip()


def help_of_run(command: str, known: PartIndex, everything: bool) -> str:
    """Help on the options of a run; most options of the trainer are shown only on request."""
    about = (
        f"{RUNS[command]} NODES and EDGES are two tables of your own: gnn-depth inspect NODES "
        "EDGES shows their columns. Options are merged in this order: defaults, files, flags."
    )
    usage = f"usage: gnn-depth {command} [NODES EDGES] [--config FILE]... [--OPTION VALUE]..."
    lines = [usage, "", textwrap.fill(about, 96), "", OWN_HELP]
    for name, option in known.options.items():
        section, _, last = name.rpartition(".")
        about = option.about
        if not everything:
            about = _sentence(about)
            if section == "trainer" and last not in SHOWN:
                continue
        if option.kind in registry.KINDS:
            about += f" One of: {', '.join(known.listed(option.kind))}."
        lines.append(f"  --{replace(option, type=option.kind or option.type)}")
        lines.append(textwrap.indent(textwrap.fill(about, 90), 6 * " "))
    lines.append(
        f"\nAll options of the trainer: gnn-depth {command} --help all. Options of a part: "
        "--model.norm.help NAME, --data.help NAME and so on."
    )
    return "\n".join(lines)
