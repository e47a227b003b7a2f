"""The kinds and roles of a table's columns, and the options for columns that need a decision."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from gnn_depth.data.checks import SPLITS, listed
from gnn_depth.data.encoding import day_of, days_in_digits, moments_of
from gnn_depth.data.notation import (
    DECIMAL_COMMA,
    ISO_DATE,
    MISSING,
    NEARLY_ALL,
    OTHER_DATE,
    THOUSANDS,
    date_formats_of,
    formats_in_words,
    sign_of,
    stripped,
)
from gnn_depth.data.scaling import PerColumn

FEW_CLASSES = 30  # a column of more different values is proposed as a label only by its name
FEW_CATEGORIES = 50  # a column of text with more different values is proposed to be left out
LABELS = ("label", "labels", "class", "y", "target", "targets", "topic", "subject")
#: Dates that stand for a missing one in databases and spreadsheets.
NO_DATES = (
    "0001-01-01",
    "1753-01-01",
    "1899-12-30",
    "1899-12-31",
    "1900-01-01",
    "1970-01-01",
    "2099-12-31",
    "9999-12-31",
)
#: Names of columns that number the parts of a split.
FOLD = re.compile(r"(?<![a-z])(k|cv)?_?(fold|split|partition|subset)s?(?![a-z])")
EXAMPLES = 3  # values that a sentence shows
ENOUGH = 10  # rows of one value make a constant column
MAX_SHOWN = 30  # characters of a value in a message
#: What to do about kinds of values that are not read.
UNREAD = {
    "other dates": "dates are read as 2024-12-31",
    "thousands separators": "numbers are read as 1234.5, without commas; a list needs brackets",
    "decimal commas": (
        "numbers are read as 1234.5, without commas; decimal ',' (--data.decimal ,) reads "
        "decimal commas"
    ),
    "numbers with a sign": "remove it in the table",
}
#: Kinds of numbers and dates that can be features once they are read in another way.
KEPT = ("decimal commas", "thousands separators", "numbers with a sign")
FEW_ODD = 0.05  # text in a smaller share of the rows of numbers may be a slip
LARGE = 10.0  # numbers beyond this train better when they are scaled
SKEWED = 3.0  # a skewness beyond this is proposed for log1p


@dataclass(frozen=True)
class ColumnFacts:
    """The kind of values in a column of a table.

    Attributes:
        name: Its name.
        kind: ``integers``, ``numbers``, ``flags`` (0 and 1), ``text``, ``dates``, ``other dates``
            (not year-month-day), ``decimal commas`` (1.234,5), ``thousands separators``
            (2,515,506), ``numbers with a sign`` (€ 12), or ``nothing``.
        rows: Number of rows.
        missing: Rows without a value.
        strange: Rows of a column of numbers or dates that hold other text.
        distinct: Number of different values.
        examples: Some of its values, or the lowest and the highest number.
        counts: The rows of each value, if they are few; empty otherwise.
        largest: The largest absolute number.
        skewness: Of the numbers.
        are_days: True for integers that all are dates such as 20241231.
        odd: Different texts in the strange rows, the first ones.
        date_formats: Formats by which ``other dates`` are dates; two if either may be the day.
        sign: Beside the numbers, such as €.
    """

    name: str
    kind: str
    rows: int
    missing: np.ndarray
    strange: np.ndarray
    distinct: int
    examples: tuple[str, ...] = ()
    counts: Mapping[str, int] | None = None
    largest: float = 0.0
    skewness: float = 0.0
    are_days: bool = False
    odd: tuple[str, ...] = ()
    date_formats: tuple[str, ...] = ()
    sign: str = ""

    @property
    def is_constant(self) -> bool:
        """True if all rows have the same value."""
        is_complete = not len(self.missing) and not len(self.strange)
        return self.distinct == 1 and self.rows >= ENOUGH and is_complete

    @property
    def has_decimal_commas(self) -> bool:
        """True for numbers with decimal commas, all or some of them."""
        if self.kind == "decimal commas":
            return True
        for value in self.odd:
            # 2,515 may have either, and a wrong guess would change it by a factor of 1,000.
            if not re.fullmatch(DECIMAL_COMMA, value) or re.fullmatch(THOUSANDS, value):
                return False
        return bool(self.odd)

    @property
    def is_numeric(self) -> bool:
        """True for numbers of any kind."""
        return self.kind in ("integers", "numbers", "flags")

    @property
    def described(self) -> str:
        """The values in words."""
        if self.kind == "nothing":
            return "no value"
        if (self.kind == "dates" and self.examples) or (self.is_numeric and self.distinct > 2):
            text = f"{self.kind} from {self.examples[0]} to {self.examples[-1]}"
            if self.are_days:
                text += " that look like dates"
            return text
        shown = ", ".join(value[:MAX_SHOWN] for value in self.examples)
        if self.distinct > len(self.examples):
            shown += ", ..."
        return f"{self.kind}, {self.distinct:,} different: {shown}"

    @property
    def are_few_odd(self) -> bool:
        """True if so little text is among the numbers that it may be corrected."""
        return len(self.strange) <= FEW_ODD * self.rows or self.have_commas

    @property
    def have_commas(self) -> bool:
        """True if the text among the numbers is numbers with commas."""
        commas = f"{DECIMAL_COMMA}|{THOUSANDS}"
        if not self.is_numeric or not self.odd:
            return False
        return all(re.fullmatch(commas, value) for value in self.odd)

    @property
    def may_be_split(self) -> bool:
        """True if its name and its few values are those of the parts of a split."""
        is_countable = self.kind in ("text", "integers", "flags") and self.distinct <= FEW_CLASSES
        return is_countable and FOLD.search(self.name.lower()) is not None

    @property
    def unread(self) -> str:
        """The values in words, with a way out for those that are not read."""
        text = self.described
        if self.kind == "other dates" and self.date_formats:
            text += f" ({UNREAD[self.kind]}; {formats_in_words(self.date_formats)})"
        elif self.kind == "numbers with a sign":
            removed = f"table[{self.name!r}].str.replace({self.sign!r}, '')"
            text += f" ({UNREAD[self.kind]}, in pandas {removed}, and the column is a feature)"
        elif self.kind in UNREAD:
            text += f" ({UNREAD[self.kind]})"
        if len(self.strange):
            text += f", and {self._oddities}"
        return text

    @property
    def _oddities(self) -> str:
        """The text among the numbers, in words, and the way out."""
        rows = listed(self.strange, EXAMPLES)
        shown = ", ".join(repr(value[:MAX_SHOWN]) for value in self.odd[:EXAMPLES])
        if self.have_commas:
            return f"numbers with commas, {shown}, in row {rows} ({UNREAD['decimal commas']})"
        text = f"text, {shown}, in row {rows} (from 0)"
        if self.are_few_odd:
            text += ": correct these cells, or leave them empty and give fill"
        return text

    @property
    def share_missing(self) -> str:
        """How much is missing, in words; empty if nothing is."""
        count = len(self.missing)
        if not count:
            return ""
        return f"{count:,} missing ({share_of(count, self.rows)})"


def share_of(part: int, whole: int) -> str:
    """A part of something, such as 0.3%."""
    return f"{100 * part / max(whole, 1):.3g}%"


def facts_of(name: str, column: pd.Series) -> ColumnFacts:
    """Look at a column as it was read; NaN, None and the usual marks are missing values."""
    nothing = np.array([], np.int64)
    blank = column.isna()
    if column.dtype.kind == "M":
        dates = column[~blank].dt.strftime("%Y-%m-%d")
        ends = (str(dates.min()), str(dates.max())) if len(dates) else ()
        missing = np.flatnonzero(blank)
        return ColumnFacts(name, "dates", len(column), missing, nothing, dates.nunique(), ends)
    if column.dtype.kind in "biuf":
        return _of_numbers(name, column, np.flatnonzero(blank), nothing)
    texts = stripped(column)
    blank |= texts.isin(MISSING)
    missing, there = np.flatnonzero(blank), texts[~blank]
    if len(there) and pd.to_numeric(there, errors="coerce").notna().mean() > 0.5:
        every = pd.to_numeric(texts, errors="coerce")
        strange, odd = _odd_ones(texts, every.isna() & ~blank)
        return replace(_of_numbers(name, every, missing, strange), odd=odd)
    kind, sign = "text", ""
    formats: tuple[str, ...] = ()
    strange, odd = nothing, ()
    is_date = there.str.fullmatch(ISO_DATE)
    # From the strictest form to the loosest one: 1,234 would be a decimal comma too.
    if not len(there):
        kind = "nothing"
    elif is_date.mean() > NEARLY_ALL:
        kind = "dates"
        strange, odd = _odd_ones(texts, ~texts.str.fullmatch(ISO_DATE) & ~blank)
        there = there[is_date]
    elif there.str.fullmatch(OTHER_DATE).all():
        kind, formats = "other dates", date_formats_of(there)
    elif there.str.fullmatch(THOUSANDS).mean() > NEARLY_ALL:
        kind = "thousands separators"
    elif there.str.fullmatch(f"{DECIMAL_COMMA}|[+-]?\\d+").mean() > NEARLY_ALL:
        kind = "decimal commas"
    else:
        sign = sign_of(there)
        if sign:
            kind = "numbers with a sign"
    counts = there.value_counts()
    few = None
    if len(counts) <= FEW_CLASSES:
        few = {str(value): int(count) for value, count in counts.items()}
    examples: tuple[str, ...] = tuple(sorted(map(str, counts.index[:EXAMPLES])))
    if kind == "dates":
        examples = str(there.min()), str(there.max())
    return ColumnFacts(
        name,
        kind,
        len(column),
        missing,
        strange,
        len(counts),
        examples,
        few,
        odd=odd,
        date_formats=formats,
        sign=sign,
    )


def _odd_ones(texts: pd.Series, are_odd: pd.Series) -> tuple[np.ndarray, tuple[str, ...]]:
    """The rows of a column that hold other text than the rest, and the first of these texts."""
    rows = np.flatnonzero(are_odd)
    return rows, tuple(map(str, texts.iloc[rows].unique()[:FEW_CLASSES]))


def _of_numbers(
    name: str, column: pd.Series, missing: np.ndarray, strange: np.ndarray
) -> ColumnFacts:
    values = column.dropna().astype(np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        return ColumnFacts(name, "nothing", len(column), missing, strange, 0)
    low, high = values.min(), values.max()
    is_whole = bool((values == values.round()).all())
    kind = "integers" if is_whole else "numbers"
    if is_whole and low >= 0 and high <= 1:
        kind = "flags"
    distinct = values.value_counts()
    counts = None
    if len(distinct) <= FEW_CLASSES:
        counts = {f"{value:g}": int(count) for value, count in distinct.sort_index().items()}
    skewness = 0.0
    if len(distinct) > 2:
        # The third moment of numbers near 1e200 overflows, and then nothing is known of it.
        with np.errstate(all="ignore"):
            skewness = float(np.nan_to_num(values.skew(), posinf=0.0, neginf=0.0))
    return ColumnFacts(
        name,
        kind,
        len(column),
        missing,
        strange,
        len(distinct),
        (f"{low:,g}", f"{high:,g}"),
        counts,
        float(max(abs(low), abs(high))),
        skewness,
        bool(low >= 19000101 and is_whole and days_in_digits(values).notna().all()),
    )


def date_mark_among(days: np.ndarray, first: str) -> tuple[str, int, str] | None:
    """A date such as 1900-01-01 that seems to stand for a missing one, its count, and the others.

    Args:
        days: Days since the first one, NaN where there is none.
        first: This day.
    """
    moments = days[np.isfinite(days)] + moments_of(pd.Series([first]))[0][0]
    if not len(moments):
        return None
    for moment in (moments.min(), moments.max()):
        mark, rest = str(day_of(moment)), moments[moments != moment]
        if mark not in NO_DATES or not len(rest):
            continue
        low, high = rest.min(), rest.max()
        # A true date of that day lies among the others, or near them.
        if max(low - moment, moment - high) > high - low:
            count = int((moments == moment).sum())
            return mark, count, f"{day_of(low)} to {day_of(high)}"
    return None


@dataclass(frozen=True)
class NodeColumns:
    """The roles of the columns of a table of nodes.

    Attributes:
        label: The class of each node; None if numbers are predicted.
        id: The name of each node in the table of edges; by default the first column.
        split: train, val or test for each node, if it is given.
        features: Columns of numbers; by default all that have no other role.
        categories: Columns of text; each value becomes a feature of 0 and 1.
        targets: Columns of numbers to predict, instead of a label.
        drop: Columns that are not read.
        dates: How dates become numbers, ``days`` or ``cyclic``, or a word for each column; empty if
            they must not.
        fills: Whether missing numbers and categories are filled in.
    """

    label: str | None
    id: str | None = None
    split: str | None = None
    features: Sequence[str] | None = None
    categories: Sequence[str] = ()
    targets: Sequence[str] = ()
    drop: Sequence[str] = ()
    dates: PerColumn = ""
    fills: bool = False


@dataclass(frozen=True)
class EdgeColumns:
    """The roles of the columns of a table of edges, or of the arrays in a file.

    Attributes:
        ends: Source and target, of a table; the first two columns if it is empty.
        weight: Weights of the edges; None for the usual name, empty for none.
        features: Features of the edges; None for the usual name.
        fills: Whether missing numbers and categories of the features are filled in.
    """

    ends: Sequence[str] = ()
    weight: str | None = None
    features: Sequence[str] | None = None
    fills: bool = False

    @property
    def of_each(self) -> list[str]:
        """The columns or arrays that are named for values of the edges."""
        return [name for name in (self.weight, *(self.features or ())) if name]


@dataclass(frozen=True)
class Proposal:
    """Options that would decide what a table leaves open.

    Attributes:
        options: Options of ``UserGraph`` by name.
        why: For each column that needs a decision, why, in words.
    """

    options: dict[str, Any]
    why: dict[str, str]

    @property
    def flags(self) -> str:
        """The options as flags of a command."""
        return " ".join(f"--data.{name} {flag(value)}" for name, value in self.options.items())


def propose(
    facts: Sequence[ColumnFacts], columns: NodeColumns, needs_label: bool, scales: bool
) -> Proposal:
    """Propose options for columns that have no role yet.

    Args:
        facts: These columns.
        columns: The roles that options have given.
        needs_label: Whether no column is the label or a target yet.
        scales: Whether an option says how numbers are scaled.
    """
    options: dict[str, Any] = {}
    why: dict[str, str] = {}
    label = _label_among(facts) if needs_label else None
    if label is not None:
        is_countable = label.kind in ("integers", "flags") and label.distinct <= FEW_CLASSES
        if label.kind == "text" or is_countable:
            options["label"] = label.name
        else:
            options["targets"] = [label.name]
    categories: list[str] = []
    left_out: list[str] = []
    undated: list[str] = []
    in_digits: list[str] = []
    formats: list[str] = []
    unfilled: list[str] = []
    needs_scale = False
    skewed: list[str] = []
    for column in facts:
        if column is label:
            continue
        words = {value.lower() for value in column.counts or ()}
        if column.is_constant:
            left_out.append(column.name)
            if not column.is_numeric:
                why[column.name] = column.described
        elif column.kind == "text" and words and words <= set(SPLITS):
            options["split"] = column.name
            why[column.name] = column.described
        elif column.may_be_split:
            left_out.append(column.name)
            if column.kind == "text":
                why[column.name] = f"{column.described}; split takes train, val and test"
        elif column.kind == "text":
            # Text of many values is a name or a sentence: a feature of its own for each of these
            # would only tell the rows apart.
            why[column.name] = column.described
            if column.distinct > FEW_CATEGORIES or column.distinct >= column.rows / 2:
                left_out.append(column.name)
                continue
            categories.append(column.name)
            if len(column.missing) and not columns.fills:
                unfilled.append(column.name)
                why[column.name] += f"; {column.share_missing}"
        elif column.kind in ("nothing", *UNREAD):
            if column.kind == "other dates" and column.date_formats:
                undated.append(column.name)
                if len(column.date_formats) == 1:  # else only the user knows which is the day
                    formats += column.date_formats
            elif column.kind not in KEPT:
                left_out.append(column.name)
            why[column.name] = column.unread
        elif column.kind == "dates":
            undated.append(column.name)
            if len(column.strange) or not columns.dates:
                why[column.name] = column.unread
        else:
            if column.are_days:
                in_digits.append(column.name)
            if column.largest > LARGE and column.kind != "flags":
                needs_scale = True
                if column.skewness > SKEWED:
                    skewed.append(column.name)
            if len(column.strange):
                if not column.are_few_odd:
                    left_out.append(column.name)
                why[column.name] = column.unread
            elif len(column.missing) and not columns.fills:
                unfilled.append(column.name)
                why[column.name] = f"{column.described}; {column.share_missing}"
    if any(column.has_decimal_commas for column in facts):
        options["decimal"] = ","
    if formats:
        options["date_format"] = list(dict.fromkeys(formats))
    if categories:
        options["categories"] = [*columns.categories, *categories]
    if left_out:
        options["drop"] = [*columns.drop, *left_out]
    if undated and not columns.dates:
        options["dates"] = "days"
    if in_digits and not columns.dates:  # which are numbers unless they are named
        options["dates"] = dict.fromkeys(in_digits, "days")
        if undated:
            options["dates"]["*"] = "days"
    if unfilled:
        options["fill"] = "median"
    if (needs_scale or undated) and not scales:
        options["standardize"] = "standard"
        if skewed:
            options["standardize"] = {**dict.fromkeys(skewed, "log1p"), "*": "standard"}
    return Proposal(options, why)


def _label_among(facts: Sequence[ColumnFacts]) -> ColumnFacts | None:
    """The column that is most likely the class, or the number to predict."""
    # A whole name counts more than a part of one: class before class_size.
    for name in LABELS:
        for column in facts:
            if column.name.lower() == name:
                return column
    for name in LABELS:
        for column in facts:
            if name in re.split(r"[^a-z]+", column.name.lower()):
                return column
    # Public tables have it last, as a rule.
    for column in reversed(facts):
        is_countable = column.kind in ("text", "integers", "flags")
        if is_countable and 2 <= column.distinct <= FEW_CLASSES and not column.may_be_split:
            return column
    return None


def flag(value: str | float | Sequence[str] | Mapping[str, str] | None) -> str:
    """A value as a shell takes it; True, False and None as YAML writes them."""
    if isinstance(value, str):
        return shlex.quote(value)
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_item(key)}: {_item(item)}" for key, item in value.items())
        return shlex.quote("{" + inner + "}")
    return shlex.quote("[" + ", ".join(map(_item, value)) + "]")


def _item(word: str) -> str:
    """A word inside a list or mapping, in quotes where YAML would read it otherwise."""
    if re.fullmatch(r"[A-Za-z_][\w.-]*( [\w.-]+)*", word) and word.lower() not in YAML_WORDS:
        return word
    return json.dumps(word, ensure_ascii=False)  # YAML reads what JSON writes


#: Words that YAML does not read as text.
YAML_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
