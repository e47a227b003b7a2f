"""Sheets as Markdown and as LaTeX."""

import re
from collections.abc import Sequence

from gnn_depth.reports.sheet import Entry, Sheet

LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "*": r"$^{*}$",
    "|": r"\textbar{}",  # a dash in LaTeX's own fonts
    "[": "{[}",  # at the start of a line it would be an option of the line break before
} | {letter: f"\\{letter}" for letter in "&%$#_{}"}


def markdown(sheets: Sequence[Sheet]) -> str:
    """Sheets as tables of GitHub's Markdown, the best of a row in bold, notes below as a list."""
    return "\n\n".join(_markdown(sheet) for sheet in sheets) + "\n"


def _markdown(sheet: Sheet) -> str:
    rule = ["---" if column < sheet.labels else "---:" for column in range(len(sheet.head))]
    lines = [[_escape(name) for name in sheet.head], rule]
    lines += [[_markdown_entry(entry) for entry in line] for line in sheet.lines]
    parts = [f"**{_escape(sheet.title)}**"] if sheet.title else []
    parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    if sheet.notes:
        parts.append("\n".join(f"- {_escape(note)}" for note in sheet.notes))
    return "\n\n".join(parts)


def _markdown_entry(entry: Entry) -> str:
    text = f"**{_escape(entry.text)}**" if entry.best else _escape(entry.text)
    return text + _escape(entry.mark) + (f" ({_escape(entry.note)})" if entry.note else "")


def _escape(text: str) -> str:
    return re.sub(r"([\\|*<`])", r"\\\1", text)


def latex(sheets: Sequence[Sheet]) -> str:
    """Sheets as ``table`` environments for the package booktabs, notes in the caption."""
    return "\n".join(_latex(sheet) for sheet in sheets)


def _latex(sheet: Sheet) -> str:
    caption = " ".join([f"{sheet.title}."] * bool(sheet.title) + [note.rstrip(".") + "." for note in sheet.notes])
    rows = [" & ".join(_latex_entry(entry) for entry in line) + r" \\" for line in sheet.lines]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_text(caption)}}}",
            rf"\begin{{tabular}}{{{'l' * sheet.labels}{'r' * (len(sheet.head) - sheet.labels)}}}",
            r"\toprule",
            " & ".join(latex_text(name) for name in sheet.head) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _latex_entry(entry: Entry) -> str:
    text = rf"\textbf{{{latex_text(entry.text)}}}" if entry.best else latex_text(entry.text)
    return text + latex_text(entry.mark) + (rf" {{\footnotesize({latex_text(entry.note)})}}" if entry.note else "")


def latex_text(text: str) -> str:
    """Text whose special characters LaTeX prints as they are; a minus before a number is one."""
    escaped = "".join(LATEX.get(letter, letter) for letter in text)
    return re.sub(r"(?<![\w.-])-(?=\d)", "$-$", escaped)
