"""Find features that alone tell what is to be predicted, and features that tell nothing."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from gnn_depth.data.columns import NodeColumns
from gnn_depth.data.encoding import in_text
from gnn_depth.data.notation import MISSING, stripped

ROWS_PER_CLASS = 10  # fewer may agree with a column by chance
FEWEST = 30  # rows that may agree with a number to predict by chance
MOST_ROWS = 20_000  # that are looked at; more are drawn from
#: From here on a column alone predicts the target.
PURITY, CORRELATION, EXPLAINED = 0.95, 0.99, 0.98


def note_leaks(
    frame: pd.DataFrame, columns: NodeColumns, missing_label: float | str | None
) -> list[str]:
    """Sentences on features that predict a label or target nearly perfectly, each alone, and on
    those that have one value in all rows.

    Args:
        frame: The table of nodes.
        columns: The roles of its columns.
        missing_label: A mark of rows without a label or target.
    """
    categories = columns.categories
    names = list(dict.fromkeys([*(columns.features or ()), *categories]))
    notes = []
    constant = []
    if len(frame) >= ROWS_PER_CLASS:
        constant = [name for name in names if frame[name].nunique(dropna=False) == 1]
    if constant:
        verb = "has" if len(constant) == 1 else "have"
        notes.append(
            f"{' and '.join(map(repr, constant))} {verb} one value in all rows, which tells no "
            "nodes apart: drop leaves it out."
        )
    if len(frame) > MOST_ROWS:  # each column will be sorted
        frame = frame.sample(MOST_ROWS, random_state=0)
    features = {}
    for name in names:
        if name not in constant:
            features[name] = _ranks(frame[name], name in categories)
    if columns.label:
        notes += _of_classes(frame, features, columns.label, missing_label)
    for target in columns.targets:
        notes += _of_numbers(frame, features, categories, target, missing_label)
    return notes


def _ranks(values: pd.Series, is_category: bool) -> pd.Series:
    """Numbers in the order of the values of a column, NaN where one is missing."""
    if is_category:
        texts = in_text(values)
        codes = pd.Series(pd.factorize(texts)[0], values.index, float)
        return codes.mask(texts == "")
    if values.dtype.kind in "biuf":
        return values.astype(float)
    if values.dtype.kind == "M":
        return values.rank(method="dense")
    numbers = pd.to_numeric(values, errors="coerce")
    if numbers.notna().any():
        return numbers
    texts = stripped(values)
    dates = texts.mask(texts.isin(MISSING))  # 2024-12-31, which text puts in order
    return dates.rank(method="dense")


def _of_classes(
    frame: pd.DataFrame,
    features: dict[str, pd.Series],
    label: str,
    missing_label: float | str | None,
) -> list[str]:
    """Sentences on the features that tell the classes apart: by one value for each class, or by
    ranges of values."""
    labels = in_text(frame[label])
    labels = labels[(labels != "") & (labels != str(missing_label))]
    counts = labels.value_counts()
    if len(counts) < 2 or len(labels) < ROWS_PER_CLASS * len(counts):
        return []
    same: list[str] = []
    pure: list[str] = []
    for name, values in features.items():
        values = values[labels.index]
        pairs = pd.DataFrame({"value": values, "label": labels}).drop_duplicates()
        # If values, classes and pairs of them are equally many, each class has a value of its own.
        if values.nunique() == len(counts) == len(pairs):
            same.append(repr(name))
            continue
        purity = _purity(values, labels)
        if purity >= PURITY:
            pure.append(f"{name!r} ({100 * purity:.3g}%)")
    notes = []
    if same:
        verb = "has" if len(same) == 1 else "have"
        notes.append(
            f"{' and '.join(same)} {verb} one value for each class of {label!r}: is it the label "
            "by another name? drop leaves it out."
        )
    if pure:
        notes.append(
            f"{' and '.join(pure)} alone tells the classes of {label!r} apart, in so many of the "
            "rows: is it known before the label is? drop leaves it out."
        )
    return notes


def _purity(values: pd.Series, labels: pd.Series) -> float:
    """How often neighbours among the sorted values of a column are of one class, compared with
    values that are split by class without a fault; the mean over the classes.
    """
    known = values.dropna().index
    # Rows of one value come in an order that tells nothing of the label.
    order = np.random.default_rng(0).permutation(len(known))
    ordered = values[known].iloc[order].sort_values(kind="stable").index
    codes = pd.factorize(labels[ordered])[0]
    agrees = codes[1:] == codes[:-1]
    counts = np.bincount(codes)
    # A class of n rows in a single run has n - 1 such pairs. The mean over the classes keeps a
    # frequent one from hiding the others.
    pairs = np.bincount(codes[1:][agrees], minlength=len(counts))
    shares = pairs[counts > 1] / (counts[counts > 1] - 1)
    if not len(shares):
        return 0.0
    return float(shares.mean())


def _of_numbers(
    frame: pd.DataFrame,
    features: dict[str, pd.Series],
    categories: Sequence[str],
    target: str,
    missing_label: float | str | None,
) -> list[str]:
    """A sentence on the features that predict a number, by rank correlation, or by the variance
    within categories."""
    texts = frame[target].astype(str)
    y = pd.to_numeric(frame[target], errors="coerce").mask(texts == str(missing_label))
    # Ranks find any increasing function of the target, such as its logarithm or another unit.
    y = y[y.notna() & (y != missing_label)].rank()
    if len(y) < FEWEST or y.nunique() < 2:
        return []
    found = []
    for name, values in features.items():
        values = values[y.index]
        known = values.notna()
        if known.sum() < FEWEST or values.nunique() < 2:
            continue
        if name in categories:
            if values.nunique() > known.sum() / 2:  # too few rows in each
                continue
            within = y[known].groupby(values[known]).transform("mean")
            explained = 1 - float(((y[known] - within) ** 2).sum() / y[known].var() / known.sum())
            if explained >= EXPLAINED:
                found.append(f"{name!r} (R2 {explained:.3f})")
            continue
        correlation = float(y[known].corr(values[known].rank()))
        if abs(correlation) >= CORRELATION:
            found.append(f"{name!r} (rank correlation {correlation:.3f})")
    if not found:
        return []
    return [
        f"{' and '.join(found)} alone nearly tells the target {target!r}: is it known before the "
        "target is? drop leaves it out."
    ]
