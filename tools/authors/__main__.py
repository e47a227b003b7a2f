"""Run cells of an item with the authors' released code, and keep the numbers in docs/results.

::

    git clone https://github.com/gdasoulas/LipschitzNorm
    python -m tools.authors lipschitz/table1 LipschitzNorm --cell method=GAT-Lip data=Cora \\
        missing=0% --seeds 0 1 2 --set nepoch=300

Every run is saved when it ends, and is not repeated by the same command. ``--set`` changes options
of the released script, kept as ``changed``. A file of docs/results/authors has a claim for every
cell and options: ``values`` is the test accuracy in percent at the best validation epoch for each
of ``seeds``, ``last`` that of the last epoch, ``largest`` the largest of all epochs; null where the
released code does not tell.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from tools.authors import balance, gcnii, lipschitz, trees
from tools.measured import FOLDER, save

#: The code that each item is compared with, and what all its cells have in common.
ITEMS: dict[str, tuple[ModuleType, dict[str, str]]] = {
    "lipschitz/table1": (lipschitz, {}),
    "lipschitz/depth": (lipschitz, {}),
    "lipschitz/trees": (trees, {}),
    "balance/table2": (balance, {}),
    "balance/table3": (balance, {}),
    "balance/table4": (balance, {"optimizer": "Adam"}),
    "balance/table6": (balance, {"optimizer": "Adam"}),
    "gcnii": (gcnii, {}),
}
PER_RUN = (
    *("seeds", "values", "last", "largest", "best_epochs", "epochs", "seconds"),
    "devices",
)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.authors",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("item", choices=list(ITEMS))
    parser.add_argument("folder", type=Path, help="a clone of the repository")
    parser.add_argument("--cell", nargs="+", required=True, metavar="AXIS=VALUE")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--set", nargs="+", default=[], metavar="OPTION=VALUE")
    parser.add_argument("--results", type=Path, default=FOLDER / "authors")
    given = parser.parse_args()
    try:
        for line in measure(given):
            print(line, flush=True)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def measure(given: argparse.Namespace) -> Iterator[str]:
    """Run the seeds that are missing; yields a line for each.

    Raises:
        ValueError: The folder, the cell or an option is not what the released code has.
    """
    code, common = ITEMS[given.item]
    folder = given.folder.resolve()
    code.RELEASED.check(folder)
    data = os.environ.get("GNN_DEPTH_DATA")
    if not data:
        raise ValueError("set GNN_DEPTH_DATA to the folder with the data.")
    at = _pairs(given.cell)
    changed: dict[str, Any] = dict(_pairs(given.set))
    options: dict[str, Any] = code.settings(at | common)
    for option, text in changed.items():
        if option not in options:
            raise ValueError(f"{option!r} is no option here: {', '.join(options)}.")
        changed[option] = yaml.safe_load(text)
    options |= changed
    path = given.results / f"{given.item.replace('/', '_')}.json"
    for seed in given.seeds:
        content = _content(path, given.item, code)
        claim = _claim(content, at, options, changed)
        if seed in claim["seeds"]:
            continue
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as workdir:
            curves = code.run(folder, Path(data), Path(workdir), at, options, seed)
        numbers = {"seeds": seed} | curves.numbers()
        numbers["seconds"] = round(time.monotonic() - begun)
        numbers["devices"] = curves.device
        for key in PER_RUN:
            claim[key].append(numbers[key])
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, content)
        yield f"{given.item} {' '.join(given.cell)} {numbers}"


def _pairs(words: list[str]) -> dict[str, str]:
    """AXIS=VALUE as a mapping."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r} must have the form NAME=VALUE.")
        found[key] = value
    return found


def _content(path: Path, item: str, code: ModuleType) -> dict[str, Any]:
    """A file of results, or a new one."""
    if path.exists():
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content
    released = code.RELEASED
    content = {
        "item": item,
        "repository": released.name,
        "commit": released.commit,
        "paper": released.paper,
    }
    stopped = getattr(code, "STOPPED", None)
    if stopped:
        content["stopped"] = stopped
    return content | {"claims": []}


def _claim(
    content: dict[str, Any], at: dict[str, str], options: dict[str, Any], changed: dict[str, Any]
) -> dict[str, Any]:
    """The claim of a cell with these options; a new one if there is none."""
    for claim in content["claims"]:
        if claim["at"] == at and claim["options"] == options:
            found: dict[str, Any] = claim
            return found
    new: dict[str, Any] = {"at": at, "changed": changed, "options": options}
    new |= {key: [] for key in PER_RUN}
    content["claims"].append(new)
    return new


if __name__ == "__main__":
    sys.exit(main())
