"""Format sheets for the terminal, and as Markdown, LaTeX and HTML."""

import html
import io
import re
from collections.abc import Callable, Sequence

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gnn_depth.reports.sheets import Sheet
from gnn_depth.web_page import web_page

SPACE = "\N{BRAILLE PATTERN BLANK}"  # becomes a space in the end: rich removes those at the end of a field
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
    }
    | {letter: f"\\{letter}" for letter in "&%$#_{}"}
)


def terminal(sheets: Sequence[Sheet], width: int | None = None, styled: bool = False) -> str:
    """Sheets as plain text; a table wider than the terminal continues below, with its labels
    repeated."""
    console = Console(
        file=io.StringIO(),
        width=width,
        highlight=False,
        color_system="standard" if styled else None,
    )
    with console.capture() as captured:
        for place, sheet in enumerate(sheets):
            console.print(Text("\n" * (place > 0) + sheet.title), end="\n\n" if sheet.title else "")
            for columns in _blocks(sheet, console):
                console.print(_rich_table(sheet, columns))
                console.print()
            for note in sheet.notes:
                console.print(Text(note))
    return (
        "\n".join(line.replace(SPACE, " ").rstrip() for line in captured.get().splitlines()) + "\n"
    )


def _blocks(sheet: Sheet, console: Console) -> list[list[int]]:
    """The columns of numbers, in as few blocks as fit into the width."""
    blocks: list[list[int]] = [[]]
    for column in range(sheet.labels, len(sheet.head)):
        wider = [*blocks[-1], column]
        # Measured without a limit: within its own width rich would break the numbers.
        needed = console.measure(
            _rich_table(sheet, wider), options=console.options.update(max_width=UNBOUNDED)
        ).maximum
        if blocks[-1] and needed > console.width:
            blocks.append([column])
        else:
            blocks[-1] = wider
    return blocks


def _rich_table(sheet: Sheet, columns: Sequence[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    shown = [*range(sheet.labels), *columns]
    for column in shown:
        justify = "left" if column < sheet.labels else "right"
        table.add_column(Text(sheet.head[column]), justify=justify, overflow="fold")  # type: ignore[arg-type]
    starred = {column for column in shown if any("*" in line[column] for line in sheet.lines)}
    for at, line in enumerate(sheet.lines):
        fields = []
        for column in shown:
            text, _, note = line[column].partition("\n")
            # Numbers are aligned, whether a star follows or not.
            space = SPACE * (column in starred)
            field = Text(
                text + space * (not text.endswith("*")),
                style="bold" if (at, column) in sheet.best else "",
            )
            fields.append(field.append(f"\n{note}{space}", style="dim not bold") if note else field)
        table.add_row(*fields)
    return table


def _frame(sheet: Sheet, escape: Callable[[str], str], bold: str, note: str) -> pd.DataFrame:
    """All fields of a sheet as text of some format, which has templates for bold numbers and for
    notes on numbers."""

    def field(text: str, best: bool) -> str:
        number, _, extra = escape(text).partition("\n")
        return (bold.format(number) if best else number) + (note.format(extra) if extra else "")

    fields = [
        [field(text, (row, column) in sheet.best) for column, text in enumerate(line)]
        for row, line in enumerate(sheet.lines)
    ]
    return pd.DataFrame(fields, columns=[escape(name) for name in sheet.head])


def markdown(sheets: Sequence[Sheet]) -> str:
    """Sheets as tables of GitHub's Markdown: the best in bold, notes as a list."""
    parts = []
    for sheet in sheets:
        parts += [f"**{_escape(sheet.title)}**"] if sheet.title else []
        frame = _frame(sheet, _escape, "**{}**", " ({})")
        rule = ["---" if column < sheet.labels else "---:" for column in range(len(sheet.head))]
        parts.append(
            "\n".join(f"| {' | '.join(row)} |" for row in [list(frame), rule, *frame.to_numpy()])
        )
        parts += ["\n".join(f"- {_escape(note)}" for note in sheet.notes)] if sheet.notes else []
    return "\n\n".join(parts) + "\n"


def _escape(text: str) -> str:
    return re.sub(r"([\\|*<`])", r"\\\1", text)


def latex(sheets: Sequence[Sheet]) -> str:
    """Sheets as ``table`` environments for the package booktabs, with notes in the caption and a
    label."""
    parts = []
    for sheet in sheets:
        caption = " ".join(
            f"{sentence.rstrip('.')}." for sentence in (sheet.title, *sheet.notes) if sentence
        )
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
        with pd.option_context("display.max_colwidth", None):
            table = _frame(sheet, html.escape, "<b>{}</b>", "<br>{}").to_html(
                index=False, border=0, escape=False
            )
        parts += [f"<h2>{html.escape(sheet.title)}</h2>"] if sheet.title else []
        parts += [
            f'<div class="scroll">{table}</div>',
            f"<p>{'<br>'.join(map(html.escape, sheet.notes))}</p>",
        ]
    return web_page(title, "\n".join(parts))
