"""Format sheets for the terminal, and as Markdown, LaTeX and HTML."""

import html
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gnn_depth.reports.sheets import Sheet
from gnn_depth.web_page import web_page

# Becomes a space in the end: rich removes those at the end of a field.
SPACE = "\N{BRAILLE PATTERN BLANK}"
UNBOUNDED = 10_000  # wider than any table
LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "±": r"$\pm$",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"$<$",
        ">": r"$>$",
        "*": r"$^{*}$",
        "|": r"\textbar{}",  # a dash in LaTeX's own fonts
        "[": "{[}",  # at the start of a line it would be an option of the line break before
        **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    }
)


def terminal(sheets: Sequence[Sheet], width: int | None = None, styled: bool = False) -> str:
    """Sheets as plain text.

    A table wider than the terminal continues below, with its labels repeated.
    """
    colours: Any = "standard" if styled else None
    console = Console(file=io.StringIO(), width=width, highlight=False, color_system=colours)
    with console.capture() as captured:
        for place, sheet in enumerate(sheets):
            if place:
                console.print()
            if sheet.title:
                console.print(Text(sheet.title), end="\n\n")
            for columns in _blocks(sheet, console):
                console.print(_rich_table(sheet, columns))
                console.print()
            for note in sheet.notes:
                console.print(Text(note))
    lines = captured.get().replace(SPACE, " ").splitlines()
    return "\n".join(map(str.rstrip, lines)) + "\n"


def _blocks(sheet: Sheet, console: Console) -> list[list[int]]:
    """The columns of numbers, in as few blocks as fit into the width."""
    # Measured without a limit: within its own width rich would break the numbers.
    unbounded = console.options.update(max_width=UNBOUNDED)
    blocks: list[list[int]] = [[]]
    for column in range(sheet.labels, len(sheet.head)):
        wider = [*blocks[-1], column]
        needed = console.measure(_rich_table(sheet, wider), options=unbounded).maximum
        if blocks[-1] and needed > console.width:
            blocks.append([column])
        else:
            blocks[-1] = wider
    return blocks


def _rich_table(sheet: Sheet, columns: Sequence[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    shown = [*range(sheet.labels), *columns]
    starred = set()
    for column in shown:
        justify: Any = "left" if column < sheet.labels else "right"
        table.add_column(Text(sheet.head[column]), justify=justify, overflow="fold")
        if any("*" in line[column] for line in sheet.lines):
            starred.add(column)
    for row, line in enumerate(sheet.lines):
        fields = []
        for column in shown:
            text, _, note = line[column].partition("\n")
            # Numbers are aligned, whether a star follows or not.
            space = SPACE if column in starred else ""
            style = "bold" if (row, column) in sheet.best else ""
            field = Text(text, style)
            if not text.endswith("*"):
                field.append(space)
            if note:
                field.append(f"\n{note}{space}", style="dim not bold")
            fields.append(field)
        table.add_row(*fields)
    return table


def _frame(sheet: Sheet, escape: Callable[[str], str], bold: str, note: str) -> pd.DataFrame:
    """All fields of a sheet as text, given the format's templates for bold numbers and notes."""
    rows = []
    for row, line in enumerate(sheet.lines):
        fields = []
        for column, text in enumerate(line):
            # Escaped before the format's own signs are added.
            field, _, extra = escape(text).partition("\n")
            if (row, column) in sheet.best:
                field = bold.format(field)
            if extra:
                field += note.format(extra)
            fields.append(field)
        rows.append(fields)
    return pd.DataFrame(rows, columns=list(map(escape, sheet.head)))


def markdown(sheets: Sequence[Sheet]) -> str:
    """Sheets as tables of GitHub's Markdown: the best in bold, notes as a list."""
    parts = []
    for sheet in sheets:
        if sheet.title:
            parts.append(f"**{_escape(sheet.title)}**")
        frame = _frame(sheet, _escape, "**{}**", " ({})")
        rule = ["---"] * sheet.labels + ["---:"] * (len(sheet.head) - sheet.labels)
        lines = []
        for row in (list(frame), rule, *frame.to_numpy()):
            lines.append(f"| {' | '.join(row)} |")
        parts.append("\n".join(lines))
        if sheet.notes:
            parts.append("\n".join(f"- {_escape(note)}" for note in sheet.notes))
    return "\n\n".join(parts) + "\n"


def _escape(text: str) -> str:
    return re.sub(r"([\\|*<`])", r"\\\1", text)


def latex(sheets: Sequence[Sheet]) -> str:
    """Sheets as ``table`` environments for booktabs, with notes in the caption and a label."""
    parts = []
    for sheet in sheets:
        # The title has no full stop, and the notes have one.
        said = [sheet.title, *sheet.notes]
        caption = " ".join(f"{sentence.rstrip('.')}." for sentence in said if sentence)
        frame = _frame(sheet, latex_text, r"\textbf{{{}}}", r" {{\footnotesize({})}}")
        table = frame.style.hide(axis="index").to_latex(
            column_format="l" * sheet.labels + "r" * (len(sheet.head) - sheet.labels),
            position_float="centering",
            hrules=True,
            caption=latex_text(caption),
            label=sheet.label or None,
        )
        parts.append(table)
    return "\n".join(parts)


def latex_text(text: str) -> str:
    """Escape text for LaTeX, with a proper minus sign before numbers."""
    return re.sub(r"(?<![\w.-])-(?=\d)", "$-$", text.translate(LATEX))


def html_page(sheets: Sequence[Sheet], title: str) -> str:
    """Sheets as a page for a browser."""
    parts = []
    for sheet in sheets:
        frame = _frame(sheet, html.escape, "<b>{}</b>", "<br>{}")
        with pd.option_context("display.max_colwidth", None):  # else pandas cuts long fields
            table = frame.to_html(index=False, border=0, escape=False)
        if sheet.title:
            parts.append(f"<h2>{html.escape(sheet.title)}</h2>")
        parts.append(f'<div class="scroll">{table}</div>')
        parts.append(f"<p>{'<br>'.join(map(html.escape, sheet.notes))}</p>")
    return web_page(title, "\n".join(parts))
