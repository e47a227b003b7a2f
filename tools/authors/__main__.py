"""Run cells of an item with the authors' released code, and keep the numbers in docs/results.

::

    git clone https://github.com/gdasoulas/LipschitzNorm
    python -m tools.authors lipschitz/table1 LipschitzNorm --cell method=GAT-Lip data=Cora \\
        missing=0% --seeds 0 1 2 --set nepoch=300

Every run is saved when it ends, and the same command does not repeat it. ``--set`` changes options
of the released script, kept as ``changed``. A file of docs/results/authors has a claim for every
cell and options: ``values`` is the test accuracy in percent at the best validation epoch for each
of ``seeds``, ``last`` that of the last epoch, ``largest`` the largest of all epochs; null where the
released code does not tell.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from gnn_depth.data.downloads import resolve_root
from tools.authors import balance, gcnii, lipschitz, trees
from tools.authors.released import Training
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
RESULTS = FOLDER / "authors"
PER_RUN = ("seeds", "values", "last", "largest", "best_epochs", "epochs", "seconds", "devices")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.authors",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("item", choices=list(ITEMS))
    parser.add_argument("folder", type=Path, help="a clone of the repository")
    parser.add_argument("--cell", nargs="+", required=True, type=pair, metavar="AXIS=VALUE")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--set", nargs="+", default=[], type=pair, metavar="OPTION=VALUE")
    given = parser.parse_args(argv)
    try:
        measure(given.item, given.folder.resolve(), dict(given.cell), given.seeds, dict(given.set))
    except ValueError as error:
        parser.error(str(error))


def pair(word: str) -> tuple[str, str]:
    name, value = word.split("=", 1)
    return name, value


def measure(
    item: str, folder: Path, at: dict[str, str], seeds: list[int], texts: dict[str, str]
) -> None:
    """Run the seeds of a cell that are missing, and print a line for each.

    Raises:
        ValueError: The folder, the cell or an option is not what the released code has.
    """
    code, common = ITEMS[item]
    released = code.RELEASED
    released.check(folder)
    options: dict[str, Any] = code.settings(at | common)
    changed = {}
    for option, text in texts.items():
        if option not in options:
            raise ValueError(f"{option!r} is no option here: {', '.join(options)}.")
        changed[option] = yaml.safe_load(text)
    options |= changed

    path = RESULTS / f"{item.replace('/', '_')}.json"
    content = {"item": item, "repository": released.name, "commit": released.commit}
    content["paper"] = released.paper
    if released.stopped:
        content["stopped"] = released.stopped
    content["claims"] = []
    if path.exists():
        content = json.loads(path.read_text(encoding="utf-8"))
    for claim in content["claims"]:
        if claim["at"] == at and claim["options"] == options:
            break
    else:
        claim = {"at": at, "changed": changed, "options": options}
        claim |= {key: [] for key in PER_RUN}
        content["claims"].append(claim)

    for seed in seeds:
        if seed in claim["seeds"]:
            continue
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as workdir:
            training = Training(folder, resolve_root(None), Path(workdir), at, options, seed)
            found = code.run(training)
        numbers = {"seeds": seed, "devices": "cpu", **found}
        numbers["seconds"] = round(time.monotonic() - begun)
        for key in PER_RUN:
            claim[key].append(numbers.get(key))
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, content)
        print(item, at, numbers, flush=True)


if __name__ == "__main__":
    main()
