"""Sheets on a terminal."""

import io
from collections.abc import Sequence

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from gnn_depth.reports.sheet import Entry, Sheet

UNBOUNDED = 10_000


def terminal(sheets: Sequence[Sheet], width: int | None = None, styled: bool = False) -> str:
    """Sheets as text; one that is wider than the terminal goes on below, with its labels repeated.

    Args:
        sheets: Tables of text.
        width: Characters in a line; those of the terminal by default.
        styled: Whether the text holds a terminal's codes for bold and dim.
    """
    console = Console(file=io.StringIO(), width=width, highlight=False, color_system="standard" if styled else None)
    with console.capture() as captured:
        for place, sheet in enumerate(sheets):
            console.print(Text("\n" * (place > 0) + sheet.title), end="\n\n" if sheet.title else "")
            for columns in _blocks(sheet, console):
                console.print(_table(sheet, columns))
                console.print()
            for note in sheet.notes:
                console.print(Text(note))
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _blocks(sheet: Sheet, console: Console) -> list[list[int]]:
    """The columns of numbers, in as few blocks as fit into the width."""
    blocks: list[list[int]] = [[]]
    for column in range(sheet.labels, len(sheet.head)):
        wider = [*blocks[-1], column]
        # Within its own width rich would rather break the numbers.
        needed = console.measure(_table(sheet, wider), options=console.options.update(max_width=UNBOUNDED)).maximum
        if blocks[-1] and needed > console.width:
            blocks.append([column])
        else:
            blocks[-1] = wider
    return blocks


def _table(sheet: Sheet, columns: Sequence[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    shown = [*range(sheet.labels), *columns]
    for column in shown:
        justify: JustifyMethod = "left" if column < sheet.labels else "right"
        table.add_column(Text(sheet.head[column]), justify=justify, overflow="fold")
    # Numbers stand below each other, whether a mark follows or not.
    marks = {column: max((len(line[column].mark) for line in sheet.lines), default=0) for column in shown}
    for line in sheet.lines:
        table.add_row(*(_text(line[column], marks[column]) for column in shown))
    return table


def _text(entry: Entry, mark: int) -> Text:
    text = Text(entry.text + entry.mark.ljust(mark), style="bold" if entry.best else "")
    return text.append(f"\n{entry.note}{' ' * mark}", style="dim not bold") if entry.note else text
