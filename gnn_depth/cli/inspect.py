"""``gnn-depth inspect``: print what would be read of a data set, and the flags to train on it."""

import io
import logging
import shutil

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gnn_depth.cli.assemble import CommandLineInterface
from gnn_depth.data.columns import flag
from gnn_depth.data.inspection import Inspection
from gnn_depth.data.source import GraphSource

NARROWEST, WIDEST = 60, 120


def inspect_command(cli: CommandLineInterface) -> Inspection:
    """Read the data of a command line, and look at it."""
    data = cli.datamodule
    logging.disable(logging.WARNING)  # the notes are part of the answer
    try:
        if isinstance(data, GraphSource):
            found = data.inspect()
        else:
            found = Inspection(notes=list(data.notes))
            # Of several batches the first stands for all.
            (batch, *_) = data.predict_dataloader()
            found.look_at(batch, data.schema, directed=False)
    finally:
        logging.disable(logging.NOTSET)
    return found


def as_text(found: Inspection) -> str:
    """The report of a data set, as wide as the terminal; it proposes no training of data that
    cannot be read."""
    width = min(max(shutil.get_terminal_size((80, 24)).columns, NARROWEST), WIDEST)
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, highlight=False)
    for title, rows in found.tables:
        console.print(Text(title))
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
        for head in ("  column", "values", "read as"):
            table.add_column(head, overflow="fold")
        for name, values, role in rows:
            table.add_row(Text(f"  {name}"), Text(values), Text(role))
        console.print(table)
        console.print()
    facts = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    facts.add_column()
    facts.add_column(overflow="fold")
    for subject, words in found.facts.items():
        facts.add_row(Text(subject), Text(words))
    console.print(facts)
    notes = Table.grid(padding=(0, 1, 0, 0))
    for note in found.notes:
        notes.add_row(Text("-"), Text(note))
    if notes.row_count:
        console.print()
        console.print(notes)
    if found.files and not found.open:
        console.print()
        console.print(Text("Train with"))
        console.print()
        # Lines that a shell joins: no line of the terminal may break a word.
        console.print(Text(command_of(found, width)), soft_wrap=True)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def command_of(found: Inspection, width: int) -> str:
    """The command that trains with what is proposed, in lines of some width."""
    words = ["gnn-depth fit", *found.files]
    for name, value in found.options.items():
        words.append(f"--{name} {flag(value)}")
    lines = ["  " + words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) + 2 > width:
            lines[-1] += " \\"
            lines.append("    " + word)
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)
