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
was measured with; ``seconds`` of a run; command-line ``options``; or a ``text`` where there is no
number.

A file of docs/results/authors has what the authors' released code gives here for cells of the same
item: see ``tools.authors``.
"""

import argparse
import json
import math
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, get_args

from scipy.stats import ttest_ind_from_stats

from gnn_depth.cli.reproduce import load_item
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
*LEVELS, _ = get_args(Level)  # the last one is of a cell without a value
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
        return len(self.values) or int(self.data.get("n", 1))

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
                deviation /= t_half_width(1.0, self.n)
        if spread == "std":
            return deviation
        return t_half_width(deviation, self.n)

    @cached_property
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
            if all(same(claim.at.get(axis, ""), text) for axis, text in entry.where.items()):
                level = agreement_of(here, entry.number, entry.interval, entry.runs)
                yield entry.source, entry.number, level

    def table(self) -> str:
        """The table in Markdown, with notes."""
        sources: list[str] = []  # numbered in the order of appearance
        for claim in self.claims:
            for source, _, _ in self.verdicts(claim):
                if source not in sources:
                    sources.append(source)
        # A note is given where the number of seeds is another than that of most cells.
        usual = statistics.mode(claim.n for claim in self.claims)
        columns: dict[str, None] = {}
        rows: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
        for claim in self.claims:
            row = tuple(claim.at[axis] for axis in self.head["rows"])
            column = ", ".join(claim.at[axis] for axis in self.head.get("columns", ())) or "result"
            columns[column] = None
            rows[row][column] = self._cell(claim, sources, usual)
        lines = []
        for row, cells in rows.items():
            lines.append([*row, *(cells.get(column, "") for column in columns)])
        table = table_of([*self.head["rows"], *columns], lines)
        notes = ""
        if sources:
            cited = sources
            if len(sources) > 1:
                cited = [f"[{place}] {source}" for place, source in enumerate(sources, start=1)]
            notes = f"*In brackets: published number and verdict. {'; '.join(cited)}.* "
        commits = Counter(claim.data["commit"] for claim in self.claims)
        code = ", ".join(f"{commit} ({count})" for commit, count in commits.items())
        spread = {"std": "standard deviation", "ci": "95% confidence interval"}[self.head["spread"]]
        return (
            f"{table}\n\n{notes}*Seeds: {usual}, or n, or one where no deviation is stated; "
            f"mean ± {spread}; code: {code}.*"
        )

    def _cell(self, claim: Claim, sources: Sequence[str], usual: int) -> str:
        """What was measured, with notes on seeds, epochs and published numbers."""
        notes = list(claim.shorter)
        if 1 < claim.n != usual:
            notes.insert(0, f"n = {claim.n}")
        for source, number, level in self.verdicts(claim):
            cited = f" [{sources.index(source) + 1}]" if len(sources) > 1 else ""
            notes.append(f"{number_text(number)}{cited} {level}")
        return f"{claim.text()} ({'; '.join(notes)})" if notes else claim.text()


def number_text(number: PublishedNumber) -> str:
    """A published number as text."""
    text = f"{100 * number.mean:.1f}"
    if number.half is not None:
        text += f" ± {100 * number.half:.1f}"
    return text


def table_of(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


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
            for source, number, level in results.verdicts(claim):
                paper = source.split(",")[0]
                cell = (name, *sorted(claim.at.items()))
                # The same runs compared with the same number, in another item.
                runs = (paper, number, claim.mean, *claim.values)
                if cell not in seen and runs not in seen:
                    lines[paper, name][SHORT if claim.shorter else level] += 1
                    seen |= {cell, runs}
    return lines


def counts(found: Sequence[Results]) -> str:
    """The number of verdicts for each paper and item, as a table."""
    columns = (*LEVELS, SHORT)
    lines = counted(found)
    total: Counter[str] = sum(lines.values(), Counter())
    rows = [*sorted(lines.items()), (("**all**", ""), total)]
    return table_of(
        ["paper", "item", *columns],
        [[*names, *(str(count[column]) for column in columns)] for names, count in rows],
    )


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
    def changed(self) -> dict[str, Any]:
        """The options that our runs do not have."""
        return self.data.get("changed", {})

    @property
    def verdict(self) -> str:
        """Whether the difference of the two means is within noise: by a t-test at 5%.

        Where the released code had fewer epochs than its paper and was best near their end, it was
        still learning.
        """
        if not EPOCHS_OF_THEIRS.issuperset(self.changed):
            return "other options"
        if self.ours is None:
            return "not run by us"
        if self.ours.shorter and self.data.get("stopped") != "as ours":
            return SHORT
        if self.changed:
            pairs = zip(self.data["best_epochs"], self.data["epochs"], strict=True)
            if any(best > 0.8 * epochs for best, epochs in pairs):
                return SHORT
        if self.ours.n == self.theirs.n == 1:
            return "one seed each"
        sides = []
        for side in (self.ours, self.theirs):
            sides += [side.mean, side.half_width("std") or 0.0, side.n]
        # Both accuracies are multiples of one test node: 0.1 points on 1000 nodes.
        is_near = abs(self.ours.mean - self.theirs.mean) <= 0.001
        is_same = is_near or ttest_ind_from_stats(*sides).pvalue >= 0.05
        return "as the authors' code" if is_same else "not as the authors' code"

    def row(self) -> list[str]:
        """Cell, published number, options, accuracies of the released code under three ways to
        choose the epoch, ours and the verdict."""
        cell = f"{self.item}: {', '.join(self.theirs.at.values())}"
        notes = [f"{option} {value}" for option, value in self.changed.items()]
        if "gpu" in self.data["devices"]:
            notes.append("on a GPU")
        texts = []
        for key in ("values", "last", "largest", "ours"):
            claim = self.ours
            if key != "ours":
                claim = Claim(self.data | {"values": self.data[key]}, "std")
            text = ""
            if claim and None not in claim.data.get("values", ()):
                text = claim.text()
                if claim.n > 1:
                    text += f" (n = {claim.n})"
            texts.append(text)
        published = number_text(self.published) if self.published else ""
        return [cell, published, ", ".join(notes), *texts, self.verdict]


def load_authors(found: Sequence[Results], folder: Path = FOLDER) -> list[Authors]:
    """The claims of the authors' released code, with ours and the published number."""
    loaded = []
    for path in sorted((folder / "authors").glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        same_item = [results for results in found if name_of(results) == content["item"]]
        for data in content["claims"]:
            data = data | {"stopped": content.get("stopped")}
            theirs = Claim(data, "std")
            ours = [one for results in same_item for one in results.claims if one.at == theirs.at]
            numbers = [each[1] for results in same_item for each in results.verdicts(theirs)]
            known = next(iter(ours), None), next(iter(numbers), None)
            loaded.append(Authors(content["paper"], content["item"], data, *known))
    return loaded


def authors_table(authors: Sequence[Authors]) -> str:
    """Published numbers, those of the released code here, and ours."""
    head = "item and cell,published,options of the released code,best validation epoch,last epoch"
    head += ",largest of all epochs,ours,ours and the released code"
    return table_of(head.split(","), [one.row() for one in authors])


def papers_table(found: Sequence[Results], authors: Sequence[Authors]) -> str:
    """What reproduces and what does not: a line for each paper."""
    of_papers: dict[str, Counter[str]] = defaultdict(Counter)
    for (paper, _), count in counted(found).items():
        of_papers[paper] += count
    rows = []
    for paper, title in PAPERS.items():
        count = of_papers[paper]
        verdicts = Counter(one.verdict for one in authors if one.paper == paper)
        agreeing = verdicts["as the authors' code"]
        decided = agreeing + verdicts["not as the authors' code"]
        agree, open_ = count["inside"] + count["overlapping"], count["undecided"] + count[SHORT]
        numbers = [agree, count["outside"], open_, f"{agreeing} of {decided}"]
        rows.append([title, *map(str, numbers)])
    head = "paper|agree with the paper|disagree|undecided, or stopped early"
    head += "|agree with the authors' code"
    last = "| Gradient expansion (Park & Kim 2024) | no numbers: its figures are drawn anew | | | |"
    return f"{table_of(head.split('|'), rows)}\n{last}"


def page(text: str, found: Sequence[Results]) -> str:
    """The page with its tables written anew.

    Raises:
        ValueError: A mark names no file of results.
    """
    authors = load_authors(found)
    tables = {results.path.stem: results.table() for results in found}
    tables |= {
        "counts": counts(found),
        "authors": authors_table(authors),
        "papers": papers_table(found, authors),
    }

    def write(match: re.Match[str]) -> str:
        if match[2] not in tables:
            raise ValueError(
                f"there is no {match[2]}.json in {FOLDER}; there are {', '.join(tables)}."
            )
        return f"{match[1]}\n{tables[match[2]]}\n\n{match[3]}"

    return BLOCK.sub(write, text)


def take(runs: Path, folder: Path = FOLDER) -> Iterator[str]:
    """Add finished runs below a folder to the results of their sweeps.

    Yields a line per claim. A claim of more seeds stays, and so does one of all epochs where the
    runs have fewer. Claims of new cells come last.
    """
    cells: dict[tuple[str, str, tuple[str, ...]], list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(runs.rglob("result.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        if result.get("status") not in ("finished", "diverged") or not result.get("sweep"):
            continue
        options = options_of(result["command"])
        # A path of this machine would be of no use to whoever repeats the run.
        if any(word.startswith("/") for word in options):
            yield f"{path.parent}: left out: name the folder of data by GNN_DEPTH_DATA"
            continue
        cells[result["sweep"], json.dumps(result["axes"]), options].append(result)
    for (name, axes, options), found in cells.items():
        path = folder / f"{name}.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        metric = content.get("metric", METRIC)
        found = [one for one in found if math.isfinite(float(one["metrics"].get(metric, "nan")))]
        if not found:
            continue
        found.sort(key=itemgetter("seed"))
        claim = {
            "at": json.loads(axes),
            "values": [round(100 * one["metrics"][metric], 2) for one in found],
            "seeds": [one["seed"] for one in found],
            "commit": found[0]["git"]["commit"][:7],
        }
        if options:
            claim["options"] = list(options)
        new = Claim(claim, content["spread"])
        claims = {frozenset(Claim(one, "std").at.items()): one for one in content["claims"]}
        known = Claim(claims.get(frozenset(new.at.items()), {"n": 0}), content["spread"])
        if known.n > new.n or (known.n and len(new.shorter) > len(known.shorter)):
            continue
        claims[frozenset(new.at.items())] = claim
        save(path, content | {"claims": list(claims.values())})
        yield f"{path.name}: {', '.join(new.at.values())}: {new.text()}"


def options_of(command: Sequence[str]) -> tuple[str, ...]:
    """The options of a command line that change the config, which have a dot, with their values."""
    found: list[str] = []
    keep = False  # a word without dashes is the value of the option before it
    for word in command:
        parts = [word]
        if word.startswith("--"):
            parts = word.split("=", 1)
            keep = "." in parts[0] and not word.startswith("--run.")
        if keep:
            found += parts
    return tuple(found)


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
        "--check", action="store_true", help="write nothing; exit code 1 if a page would change"
    )
    parser.add_argument(
        "--take", type=Path, metavar="RUNS", help="take up the finished runs below this folder"
    )
    options = parser.parse_args()
    if options.take:
        print("\n".join(take(options.take)))
    found = load()  # after take, which changes it
    changed = False
    for path in PAGES:
        before = path.read_text(encoding="utf-8")
        after = page(before, found)
        changed = changed or before != after
        if not options.check:
            path.write_text(after, encoding="utf-8")
    print(counts(found))
    return int(options.check and changed)


if __name__ == "__main__":
    sys.exit(main())
