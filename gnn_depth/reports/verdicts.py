"""Our numbers against those of papers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gnn_depth.reports.cells import Cell, Labels, Spread, Table
from gnn_depth.reports.published import Number, Published
from gnn_depth.reports.settings import resolve, same

Word: TypeAlias = Literal["inside", "overlapping", "outside", "no value"]
ROUNDING = 1e-9  # 0.821 is not quite 82.1 / 100


@dataclass(frozen=True)
class Verdict:
    """Our mean against a published one.

    Attributes:
        row, column: The cell's labels.
        published: What the number is of.
        number: The published number.
        cell: Ours.
        word: ``inside`` the published interval; ``overlapping``: our interval meets the published one, or the published
            number where that has none; ``outside``; ``no value``, where we have none.
    """

    row: Labels
    column: Labels
    published: Published
    number: Number
    cell: Cell
    word: Word

    @property
    def difference(self) -> float:
        """Our mean minus the published one."""
        return self.cell.mean - self.number.mean


def against(table: Table, published: Sequence[Published]) -> list[Verdict]:
    """A verdict on every cell for which there is a published number; several sources give several.

    Args:
        table: Our means.
        published: Numbers of papers.

    Raises:
        ReportError: An entry speaks of an axis that our runs do not have.
    """
    ours = [cell.settings for _, _, cell in table.each() if cell.settings]
    named = list(dict.fromkeys((*table.row_names, *table.column_names, *table.axes)))
    known = list(dict.fromkeys([*named, *(name for settings in ours for name in settings)]))
    # What all cells share holds of those without runs, too.
    shared = {name: text for name, text in ours[0].items() if all(other.get(name) == text for other in ours)}
    fixed = [{resolve(axis, named, known): text for axis, text in entry.where.items()} for entry in published]
    over = [resolve(entry.over, named, known) for entry in published]
    verdicts = []
    for row, column, cell in table.each():
        here = shared | dict(cell.settings) | table.labels(row, column)
        for entry, where, axis in zip(published, fixed, over, strict=True):
            fits = all(same(here.get(name, ""), text) for name, text in where.items())
            for text, number in entry.numbers.items():
                if fits and same(here.get(axis, ""), text):
                    word = verdict(cell, number, entry.interval)
                    verdicts.append(Verdict(row, column, entry, number, cell, word))
    return verdicts


def verdict(cell: Cell, number: Number, interval: Spread | None) -> Word:
    r"""Where our mean m lies in relation to a published number a ± h.

    Inside where :math:`|m - a| \le h`; overlapping where :math:`|m - a| \le h + w`, with w ours of the same kind (the
    standard deviation where the published number has none, and h = 0); outside otherwise.

    Args:
        cell: Our runs.
        number: a and h.
        interval: What h is; None where there is none.
    """
    distance = abs(cell.mean - number.mean) - ROUNDING
    half, width = number.half, cell.half_width(interval or "std")
    if math.isnan(distance):
        return "no value"
    if half is not None and distance <= half:
        return "inside"
    if width is not None and distance <= (half or 0.0) + width:
        return "overlapping"
    return "outside"
