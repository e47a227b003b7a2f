"""Install the lowest versions that pyproject.toml allows, and run a sample of the tests with them.

::

    python -m tools.lowest_versions FOLDER            # a new environment in FOLDER
    python -m tools.lowest_versions FOLDER tests/nn   # other tests

Run by hand when a lower bound changes: the test suite itself runs with constraints.txt.
"""

import re
import subprocess
import sys
import venv
from pathlib import Path

import tomllib

ROOT = Path(__file__).parent.parent
TEST_TOOLS = ("pytest", "pytest-xdist", "hypothesis", "beartype", "psutil")
SAMPLE = (
    "tests/test_registry.py",
    "tests/test_graph.py",
    "tests/nn/test_stack.py",
    "tests/data/test_planetoid.py",
    "tests/training/test_module.py",
    "tests/training/test_lightning_internals.py",
    "tests/diagnostics/test_watch.py",
    "tests/reports/test_table.py",
    "tests/cli/test_config.py",
    "tests/cli/test_runs.py",
)


def lowest(requirements: list[str]) -> list[str]:
    """Requirements pinned to their lower bounds: ``numpy==2`` for ``numpy>=2,<3``."""
    pinned = []
    for requirement in requirements:
        found = re.match(r"([\w.-]+(?:\[[\w,]+\])?)\s*>=\s*([\w.]+)", requirement)
        if found is None:
            raise ValueError(f"{requirement!r} has no lower bound.")
        pinned.append(f"{found[1]}=={found[2]}")
    return pinned


def main(argv: list[str]) -> int:
    """Install and test; return pytest's exit code."""
    if not argv:
        print(__doc__, file=sys.stderr)
        return 2
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder, tests = Path(argv[0]), argv[1:] or list(SAMPLE)
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    development = project["optional-dependencies"]["dev"]
    tools = [each for each in development if re.match(r"[\w-]+", each)[0] in TEST_TOOLS]
    install = [python, "-m", "pip", "install", "--quiet"]
    wanted = lowest(project["dependencies"])
    print("installing", *wanted, flush=True)
    subprocess.run([*install, *wanted, *tools], check=True)
    # Without its dependencies, which pip would otherwise bring up to date.
    subprocess.run([*install, "--no-deps", "--editable", ROOT], check=True)
    # Old versions are deprecated here and there by what they depend on, which is not pinned.
    test = [python, "-m", "pytest", "-q", "-W", "ignore::DeprecationWarning", *tests]
    return subprocess.run(test, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
