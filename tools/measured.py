"""Write the tables of docs/measured.md and README.md from docs/results, or take up finished runs.

::

    python -m tools.measured               # write the tables and the counts of verdicts
    python -m tools.measured --check       # exit code 1 if a page differs from them
    python -m tools.measured --take runs   # first take up the finished runs below a folder

A file of docs/results holds the claims of one item of ``gnn-depth reproduce`` (key ``item``, which
also has the published numbers) or of one config (``config`` and ``published``), with command-line
``options`` if there are any. ``rows`` and ``columns`` are the axes of its table. A claim is one
line: ``at``, the values of the axes; ``values`` for each seed in ``seeds``, or their ``mean``,
``spread`` (standard deviation, or 95% confidence interval) and number ``n``; the ``commit`` that it
was measured with; ``seconds`` of a run; command-line ``options``; ``stale`` if today's code is
known to give something else; or a ``text`` where there is no number.

A file of docs/results/authors has what the authors' released code gives here for cells of the same
item: see ``tools.authors``.
"""

import argparse
import json
import math
import os
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from gnn_depth.cli.reproduce import load_item
from gnn_depth.cli.sweep import load_grid
from gnn_depth.reports.published import (
    Level,
    Published,
    PublishedNumber,
    agreement_of,
    parse_published,
)
from gnn_depth.reports.settings import label, same
from gnn_depth.reports.table import t_half_width

ROOT = Path(__file__).parents[1]
METRIC = "test_acc_at_best_val"  # unless a file of results names another
FOLDER, PAGE = ROOT / "docs/results", ROOT / "docs/measured.md"
PAGES = (PAGE, ROOT / "README.md")
BLOCK = re.compile(r"(<!-- results: (\S+) -->\n).*?(<!-- end of results -->)", re.S)
#: Options that end a run before its protocol does, and their unit.
SHORTER = {"--trainer.max_epochs": "epochs", "--trainer.max_steps": "steps"}
LEVELS: tuple[Level, ...] = ("inside", "overlapping", "outside", "undecided")
SHORT = "fewer epochs"
#: Options of released code for the number of epochs.
EPOCHS_OF_THEIRS = {"nepoch", "maxEpochs", "max_epochs"}
#: The papers of the README's table: source, and the name of the paper's method or subject.
PAPERS = {
    "Dasoulas et al. 2021": "LipschitzNorm (Dasoulas et al., ICML 2021)",
    "Mustafa et al. 2023": "Balanced GATs (Mustafa et al., NeurIPS 2023)",
    "Alon & Yahav 2021": "Trees (Alon & Yahav, ICLR 2021)",
    "Chen et al. 2020": "GCNII (Chen et al., ICML 2020)",
}
#: What ``tools.authors.same_function`` found of the released networks of a paper.
SAME_FUNCTION = {
    "Dasoulas et al. 2021": "the same function as ours",
    "Mustafa et al. 2023": "the same function as ours",
    "Chen et al. 2020": "the same function as ours",
    "Alon & Yahav 2021": "the same functions as ours, but for the GIN",
}


@dataclass(frozen=True)
class Claim:
    """One cell: see the module. It has the mean and the interval that the rule of agreement asks a
    cell for."""

    data: dict[str, Any]
    unit: str  # of spread: std or ci

    @property
    def at(self) -> dict[str, str]:
        return {axis: label(value) for axis, value in self.data["at"].items()}

    @property
    def values(self) -> list[float]:
        return [value / 100 for value in self.data.get("values", [])]

    @property
    def n(self) -> int:
        return len(self.values) or self.data.get("n", 1)

    @property
    def mean(self) -> float:
        if self.values:
            return statistics.fmean(self.values)
        return self.data.get("mean", math.nan) / 100

    def half_width(self, spread: str) -> float | None:
        if self.n < 2:
            return None
        if self.values:
            deviation = statistics.stdev(self.values)
        else:
            deviation = self.data["spread"] / 100
            if self.unit == "ci":  # back from the interval to the deviation
                deviation /= float(t_half_width(1.0, self.n))
        if spread == "std":
            return deviation
        return float(t_half_width(deviation, self.n))

    def shorter(self) -> list[str]:
        """The number of epochs or steps as a note, if an option of the claim sets it."""
        options = self.data.get("options", [])
        notes = []
        for option, unit in SHORTER.items():
            if option in options:
                notes.append(f"{options[options.index(option) + 1]} {unit}")
        return notes

    def text(self) -> str:
        if self.data.get("text"):
            return self.data["text"]
        return number_text(PublishedNumber(self.mean, self.half_width(self.unit)))


@dataclass(frozen=True)
class Results:
    """A file of docs/results."""

    path: Path
    head: dict[str, Any]
    claims: list[Claim]

    @cached_property
    def published(self) -> list[Published]:
        found = self.head.get("published", [])
        if not found and "item" in self.head:
            found = load_item(self.head["item"]).published
        return parse_published(found, str(self.path), self.head.get("metric", METRIC))

    def verdicts(self, claim: Claim) -> Iterator[tuple[str, PublishedNumber, Level]]:
        """Source, published number and verdict of every published number for a claim."""
        here: Any = claim
        for entry in self.published:
            if not all(same(claim.at.get(axis, ""), text) for axis, text in entry.where.items()):
                continue
            for text, number in entry.numbers.items():
                if same(claim.at.get(entry.over, ""), text):
                    level = agreement_of(here, number, entry.interval, entry.runs)
                    yield entry.source, number, level

    def table(self) -> str:
        """The table in Markdown, with notes."""
        sources: dict[str, int] = {}  # and their numbers in the order of appearance
        for claim in self.claims:
            for source, _, _ in self.verdicts(claim):
                sources.setdefault(source, len(sources) + 1)
        # A note is given where the number of seeds is another than that of most cells.
        usual = statistics.mode(claim.n for claim in self.claims)
        rows: dict[tuple[str, ...], None] = {}
        columns: dict[tuple[str, ...], None] = {}
        cells = {}
        for claim in self.claims:
            row = tuple(claim.at[axis] for axis in self.head["rows"])
            column = tuple(claim.at[axis] for axis in self.head.get("columns", ())) or ("result",)
            rows[row] = columns[column] = None
            cells[row, column] = self._cell(claim, sources, usual)
        head = [*self.head["rows"], *map(", ".join, columns)]
        lines = [head, ["---"] * len(head)]
        for row in rows:
            lines.append([*row, *(cells.get((row, column), "") for column in columns)])
        notes = " ".join(self._notes(list(sources), usual))
        return "\n".join(map(line_of, lines)) + f"\n\n{notes}"

    def _cell(self, claim: Claim, sources: Mapping[str, int], usual: int) -> str:
        """What was measured, with notes on seeds, epochs and published numbers."""
        text = claim.text()
        if claim.data.get("stale"):
            text += "†"
        notes = claim.shorter()
        if 1 < claim.n != usual:
            notes.insert(0, f"n = {claim.n}")
        for source, number, level in self.verdicts(claim):
            cited = f" [{sources[source]}]" if len(sources) > 1 else ""
            notes.append(f"{number_text(number)}{cited} {level}")
        return f"{text} ({'; '.join(notes)})" if notes else text

    def _notes(self, sources: Sequence[str], usual: int) -> Iterator[str]:
        if sources:
            cited = sources
            if len(sources) > 1:
                cited = [f"[{place}] {source}" for place, source in enumerate(sources, start=1)]
            yield f"*In brackets: published number and verdict. {'; '.join(cited)}.*"
        commits = Counter(claim.data["commit"] for claim in self.claims)
        code = ", ".join(f"{commit} ({count})" for commit, count in commits.items())
        spread = {"std": "standard deviation", "ci": "95% confidence interval"}[self.head["spread"]]
        seeds = "One seed where no deviation is stated"
        if usual > 1:
            seeds = f"{usual} seeds where nothing else is stated"
            if any(claim.n == 1 for claim in self.claims):
                seeds += ", one where no deviation is"
        yield f"*{seeds}; mean ± {spread}; code: {code}.*"
        if any(claim.data.get("stale") for claim in self.claims):
            yield (
                "*† Measured with older code; today's code is known to give other numbers here or "
                "in like cells.*"
            )


def number_text(number: PublishedNumber) -> str:
    """A published number as text."""
    text = f"{100 * number.mean:.1f}"
    if number.half is not None:
        text += f" ± {100 * number.half:.1f}"
    return text


def line_of(cells: Sequence[str]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def load(folder: Path = FOLDER) -> list[Results]:
    """All files of a folder of results."""
    found = []
    for path in sorted(folder.glob("*.json")):
        head = json.loads(path.read_text(encoding="utf-8"))
        claims = [Claim(claim, head["spread"]) for claim in head.pop("claims")]
        found.append(Results(path, head, claims))
    return found


def name_of(results: Results) -> str:
    """The item, or the file of results of a config."""
    return str(results.head.get("item", results.path.stem))


def counted(found: Sequence[Results]) -> dict[tuple[str, str], Counter[str]]:
    """The number of verdicts for each paper and item. A cell counts once.

    A cell that several sources have numbers for counts for the first of them, which is the item's
    paper; one that another file or item repeats counts for the first file. Claims of fewer epochs
    are counted apart.
    """
    lines: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    seen: set[Any] = set()
    for results in found:
        name = name_of(results)
        for claim in results.claims:
            first = next(results.verdicts(claim), None)
            if first is None:
                continue
            source, number, level = first
            paper = source.split(",")[0]
            cell = (name, *sorted(claim.at.items()))
            # The same runs compared with the same number, in another item.
            runs = (paper, number, claim.mean, *claim.values)
            if cell in seen or runs in seen:
                continue
            seen |= {cell, runs}
            outcome = SHORT if claim.shorter() else level
            lines[paper, name][outcome] += 1
    return lines


def counts(found: Sequence[Results]) -> str:
    """The number of verdicts for each paper and item, as a table."""
    columns = (*LEVELS, SHORT)
    lines = counted(found)
    total: Counter[str] = sum(lines.values(), Counter())
    table = [line_of(["paper", "item", *columns]), "|---|---|" + len(columns) * "---|"]
    for (paper, name), count in [*sorted(lines.items()), (("**all**", ""), total)]:
        table.append(line_of([paper, name, *(str(count[column]) for column in columns)]))
    return "\n".join(table)


@dataclass(frozen=True)
class Authors:
    """What the authors' released code gives here for one cell of an item, and our claim of it."""

    paper: str
    item: str
    data: dict[str, Any]
    ours: Claim | None
    published: PublishedNumber | None

    @property
    def theirs(self) -> Claim:
        """The accuracy at the best validation epoch, as ours."""
        return Claim(self.data, "std")

    @property
    def is_variation(self) -> bool:
        """True if an option besides the number of epochs differs from the paper's."""
        return not EPOCHS_OF_THEIRS.issuperset(self.data.get("changed", {}))

    @property
    def _was_still_learning(self) -> bool:
        """True if the released code was given fewer epochs than its paper and was best near their
        end."""
        if EPOCHS_OF_THEIRS.isdisjoint(self.data.get("changed", {})):
            return False
        for best, epochs in zip(self.data["best_epochs"], self.data["epochs"], strict=True):
            if best > 0.8 * epochs:
                return True
        return False

    @property
    def verdict(self) -> str:
        """Whether the difference of the two means is within noise.

        Noise is the 95% interval of the difference of two means with the deviation of the seeds on
        both sides together; with one seed on both sides nothing can be said.
        """
        if self.ours is None:
            return "not run by us"
        if self.ours.shorter() and self.data.get("stopped") != "as ours":
            return SHORT
        if self._was_still_learning:
            return SHORT
        freedom = self.ours.n + self.theirs.n - 2
        if freedom == 0:
            return "one seed each"
        squares = 0.0
        for side in (self.ours, self.theirs):
            squares += (side.n - 1) * (side.half_width("std") or 0.0) ** 2
        error = math.sqrt(squares / freedom * (1 / self.ours.n + 1 / self.theirs.n))
        # t_half_width divides by the root of the number of values, one more than the freedom.
        width = float(t_half_width(error, freedom + 1)) * math.sqrt(freedom + 1)
        # Both accuracies are multiples of one test node: 0.1 points on 1000 nodes.
        is_same = abs(self.ours.mean - self.theirs.mean) <= max(width, 0.001)
        return "as the authors' code" if is_same else "not as the authors' code"


def load_authors(found: Sequence[Results], folder: Path = FOLDER) -> list[Authors]:
    """The claims of the authors' released code, with ours and the published number."""
    loaded = []
    for path in sorted((folder / "authors").glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        same_item = [results for results in found if name_of(results) == content["item"]]
        for data in content["claims"]:
            data = data | {"stopped": content.get("stopped")}
            theirs = Claim(data, "std")
            ours, published = None, None
            for results in same_item:
                for claim in results.claims:
                    if ours is None and claim.at == theirs.at:
                        ours = claim
                for _, number, _ in results.verdicts(theirs):
                    published = published or number
            loaded.append(Authors(content["paper"], content["item"], data, ours, published))
    return loaded


def authors_table(authors: Sequence[Authors]) -> str:
    """Published numbers, those of the released code here, and ours."""
    lines = [
        "| item and cell | published | released code: best validation epoch | last epoch | "
        "largest of all epochs | ours | ours and the released code |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in authors:
        if one.is_variation:
            continue
        cell, published = _cell_and_published(one)
        notes = _notes(one)
        if notes:
            cell += f" (theirs: {notes})"
        columns = [cell, published, *_of_released(one), _text_of(one.ours), one.verdict]
        lines.append(line_of(columns))
    return "\n".join(lines)


def variations_table(authors: Sequence[Authors]) -> str:
    """What the released code gives with other options than those of our runs."""
    lines = [
        "| item and cell | published | options of the released code | best validation epoch | "
        "last epoch | largest of all epochs |",
        "|---|---|---|---|---|---|",
    ]
    for one in authors:
        if one.is_variation:
            lines.append(line_of([*_cell_and_published(one), _notes(one), *_of_released(one)]))
    return "\n".join(lines)


def _cell_and_published(one: Authors) -> tuple[str, str]:
    """The item with its cell, and the published number; empty if there is none."""
    cell = f"{one.item}: {', '.join(one.theirs.at.values())}"
    return cell, number_text(one.published) if one.published else ""


def _notes(one: Authors) -> str:
    """The options that our runs do not have, and a device that is no CPU."""
    notes = [f"{option} {value}" for option, value in one.data.get("changed", {}).items()]
    if "gpu" in one.data["devices"]:
        notes.append("on a GPU")
    return ", ".join(notes)


def _of_released(one: Authors) -> list[str]:
    """Accuracy of the released code under three ways to choose the epoch; empty if not told."""
    columns = []
    for key in ("values", "last", "largest"):
        values = one.data[key]
        is_told = None not in values
        columns.append(_text_of(Claim(one.data | {"values": values}, "std") if is_told else None))
    return columns


def _text_of(claim: Claim | None) -> str:
    """An accuracy, with the number of seeds if there are several."""
    if claim is None:
        return ""
    return f"{claim.text()} (n = {claim.n})" if claim.n > 1 else claim.text()


def _of_code(paper: str, agreeing: int, decided: int) -> str:
    """What the authors' released code says of a paper's results."""
    found = []
    if paper in SAME_FUNCTION:
        found.append(SAME_FUNCTION[paper])
    if decided:
        found.append(f"{agreeing} of {decided} trained cells agree with ours")
    return "; ".join(found) or "not run"


def papers_table(found: Sequence[Results], authors: Sequence[Authors]) -> str:
    """What reproduces and what does not: a line for each paper."""
    lines = [
        "| paper | cells that agree | that do not | undecided, or stopped early | "
        "the authors' code, run here |",
        "|---|---|---|---|---|",
    ]
    of_papers: dict[str, Counter[str]] = defaultdict(Counter)
    for (paper, _), count in counted(found).items():
        of_papers[paper] += count
    for paper, title in PAPERS.items():
        count = of_papers[paper]
        of_paper = [one for one in authors if one.paper == paper and not one.is_variation]
        verdicts = Counter(one.verdict for one in of_paper)
        agreeing = verdicts["as the authors' code"]
        decided = agreeing + verdicts["not as the authors' code"]
        columns = [
            title,
            str(count["inside"] + count["overlapping"]),
            str(count["outside"]),
            str(count["undecided"] + count[SHORT]),
            _of_code(paper, agreeing, decided),
        ]
        lines.append(line_of(columns))
    lines.append(
        "| Gradient expansion (Park & Kim 2024) | the paper prints no numbers | | | no code |"
    )
    return "\n".join(lines)


def page(text: str, found: Sequence[Results]) -> str:
    """The page with its tables written anew.

    Raises:
        ValueError: A mark names no file of results.
    """
    authors = load_authors(found)
    # Functions, as a page has only some of the tables.
    tables: dict[str, Callable[[], str]] = {
        "counts": partial(counts, found),
        "authors": partial(authors_table, authors),
        "variations": partial(variations_table, authors),
        "papers": partial(papers_table, found, authors),
    }
    for results in found:
        tables[results.path.stem] = results.table

    def write(match: re.Match[str]) -> str:
        if match[2] not in tables:
            raise ValueError(
                f"there is no {match[2]}.json in {FOLDER}; there are {', '.join(tables)}."
            )
        return f"{match[1]}\n{tables[match[2]]()}\n\n{match[3]}"

    return BLOCK.sub(write, text)


def take(runs: Path, folder: Path = FOLDER, into: str | None = None) -> Iterator[str]:
    """Add finished runs below a folder to the results of their sweeps, or to one file.

    Yields a line per claim. A claim of more seeds stays, and so does one of all epochs where the
    runs have fewer, unless it is stale.
    """
    cells: dict[tuple[str, str, tuple[str, ...]], list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(runs.rglob("result.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        if result.get("status") in ("finished", "diverged") and result.get("sweep"):
            settings = tuple(settings_of(result["command"]))
            # A path of this machine would be of no use to whoever repeats the run.
            absolute = [word for word in settings if word.startswith("/")]
            if absolute:
                reason = f"{absolute[0]} is not below the folder GNN_DEPTH_DATA"
                yield f"{path.parent}: left out, for {reason}"
                continue
            cells[result["sweep"], json.dumps(result["axes"]), settings].append(result)
    for (sweep, axes, settings), found in cells.items():
        path = folder / f"{into or sweep}.json"
        if not path.exists():
            yield f"{path.name}: no such file of results, so its runs are left out"
            continue
        content = json.loads(path.read_text(encoding="utf-8"))
        metric = content.get("metric", METRIC)
        values, seeds, seconds, commits = [], [], [], []
        for one in sorted(found, key=lambda one: one["seed"]):
            value = one["metrics"].get(metric, math.nan)
            if math.isfinite(value):
                values.append(round(100 * value, 2))
                seeds.append(one["seed"])
                if one.get("device", "cpu") == "cpu":  # what a run costs is asked of the CPU
                    seconds.append(one["seconds"])
                commits.append(one["git"]["commit"])
        if not values:
            continue
        claim = {
            "at": json.loads(axes),
            "values": values,
            "seeds": seeds,
            "commit": commits[0][:7],
        }
        if seconds:
            claim["seconds"] = round(statistics.fmean(seconds))
        if settings:
            claim["options"] = list(settings)
        new = Claim(claim, content["spread"])
        claims = content["claims"]
        places = [place for place, old in enumerate(claims) if Claim(old, "std").at == new.at]
        if places:
            known = Claim(claims[places[0]], "std")
            is_shorter = len(new.shorter()) > len(known.shorter())
            if not known.data.get("stale") and (known.n > new.n or is_shorter):
                continue
            claims[places[0]] = claim
        else:
            claims.append(claim)
        if "item" in content:
            grid = load_grid(str(load_item(content["item"]).grid), True)
            # Sorted by the first axis in the end, which keeps the order of the others.
            for axis in reversed(grid.axes):
                labels = list(grid.labels_of(axis.name))
                claims.sort(key=lambda one: labels.index(Claim(one, "std").at[axis.name]))
        save(path, content)
        yield f"{path.name}: {', '.join(new.at.values())}: {new.text()}"


def settings_of(command: Sequence[str]) -> list[str]:
    """The options of a command line that change the config, which have a dot, with their values."""
    data = os.environ.get("GNN_DEPTH_DATA")
    found: list[str] = []
    keep = False  # a word without dashes is the value of the option before it
    for word in command:
        parts = [word]
        if word.startswith("--"):
            parts = word.split("=", 1)
            keep = "." in parts[0] and not word.startswith("--run.")
        if keep:
            found += parts
    if data:
        found = [word.replace(data, "$GNN_DEPTH_DATA") for word in found]
    return found


def save(path: Path, content: dict[str, Any]) -> None:
    """Write a file of results with one claim on each line."""
    lines = []
    for key, value in content.items():
        if key != "claims":
            lines.append(f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    # By hand: json would spread a claim over many lines, or put all claims on one.
    claims = ",\n  ".join(json.dumps(claim, ensure_ascii=False) for claim in content["claims"])
    lines.append(f' "claims": [\n  {claims}\n ]')
    text = ",\n".join(lines)
    path.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 if the page would change"
    )
    parser.add_argument(
        "--take", type=Path, metavar="RUNS", help="take up the finished runs below this folder"
    )
    parser.add_argument(
        "--into",
        metavar="NAME",
        help="take them up in this file, not in that of their sweep's name",
    )
    options = parser.parse_args()
    if options.take:
        print("\n".join(take(options.take, into=options.into)))
    found = load()  # after take, which changes it
    differs = False
    for path in PAGES:
        before = path.read_text(encoding="utf-8")
        after = page(before, found)
        differs = differs or before != after
        if not options.check:
            path.write_text(after, encoding="utf-8")
    if options.check:
        return int(differs)
    print(counts(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
