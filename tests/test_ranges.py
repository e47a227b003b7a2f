"""Every numeric option of every part, far outside its range: it works, or Python and command line
refuse it alike."""

import re
import time
import traceback
from functools import cache
from pathlib import Path
from typing import Annotated

import pytest
import torch

import gnn_depth
from gnn_depth import Graph, registry
from gnn_depth.cli.catalogue import catalogue
from gnn_depth.cli.config import check_early, read_arguments
from gnn_depth.cli.errors import UsageError
from gnn_depth.data import SyntheticCitation
from gnn_depth.nn.norms import LipschitzNorm, SpectralNorm
from gnn_depth.nn.parts import Norm, ScoreNorm
from gnn_depth.part_specs import SECTIONS, load_class
from gnn_depth.ranges import Probability, Range, in_range
from gnn_depth.training import NodeClassifier
from gnn_depth.training.recorder import RunRecorder

PACKAGE = Path(gnn_depth.__file__).parent
#: Options without a default.
NEEDED = {
    "balanced": {"base": "xavier"},
    "Planetoid": {"name": "Cora"},
    "Amazon": {"name": "Photo"},
    "Coauthor": {"name": "CS"},
    "HeterophilousGraphs": {"name": "tolokers"},
    "MiniBatches": {"source": SyntheticCitation()},
    "MissingFeatures": {"source": SyntheticCitation(), "rate": 0.5},
    "UserGraph": {"path": "absent.npz"},
    "Tables": {"nodes": "absent.csv", "edges": "absent.csv"},
    "PyG": {"dataset": "FakeDataset"},
    "LayerMeasures": {"measures": ["similarity"]},
}
SECONDS = 2.0
FAR = (-1, 0, 10**12)
KINDS = [
    *(kind for kind in registry.KINDS if kind != "task"),
    "callback",
    "model",
    "run",
]  # no task takes a number


@cache
def known():
    """What the command line knows of every part."""
    return catalogue([])


def numbers(kind):
    """Names and import paths of parts, and their numeric options; of the model and the run as a
    whole."""
    if kind in ("model", "run"):
        options = known().options.items()
        found = [(kind, "", option) for key, option in options if key.startswith(f"{kind}.")]
    else:
        found = []
        for part in known().parts(kind).values():
            if part.path.startswith("gnn_depth."):
                found += [(part.name, part.path, option) for option in part.options.values()]
    return [each for each in found if re.search(r"^(list\[)?(int|float)\b", each[2].type)]


def use(kind, name, path, options):
    if kind == "run":
        RunRecorder(**options)
    elif kind == "model":
        NodeClassifier(8, 3, **options)
    elif kind in ("data", "callback", "transform"):
        load_class(path)(**options)
    else:
        layer = "gat" if kind == "norm" and issubclass(load_class(path), ScoreNorm) else "gcn"
        parts = {"layer": layer, kind: {"name": name, **options}}
        model = NodeClassifier(8, 3, num_layers=2, hidden_channels=8, **parts)
        graph = Graph(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), 5)
        model.stack(torch.randn(5, 8), graph).sum().backward()
        model.stack.eval()(torch.randn(5, 8), graph)


def said_by_python(kind, name, path, options):
    error = None
    try:
        use(kind, name, path, options)
    except ValueError as refused:
        error = refused
    except RuntimeError as refused:  # of PyTorch, for sizes that nothing can hold
        return str(refused)
    if error is None:
        return None
    raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    assert raised_in.is_relative_to(PACKAGE)  # else a library raised it
    assert len(str(error).splitlines()) <= 2
    return str(error)


def said_by_command_line(kind, name, key, value):
    if kind in ("model", "run"):
        chosen = []
    else:
        section = next(section for section, of in SECTIONS.items() if of == kind)
        needed = dict(NEEDED.get(name, {}))
        if "source" in needed:
            needed["source"] = "SyntheticCitation"
        chosen = [f"--{section}={name}"]
        chosen += [f"--{section}.{option}={given}" for option, given in needed.items()]
    try:
        check_early("fit", read_arguments([*chosen, f"--{key}={value}"]), known())
    except UsageError as error:
        return str(error)
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_python_and_the_command_line_accept_the_same_numbers(kind):
    section = next((section for section, of in SECTIONS.items() if of == kind), kind)
    for name, path, option in numbers(kind):
        short = option.name.rpartition(".")[2]
        what, key = f"{kind} {name} {short}", f"{section}.{short}"
        assert option.range is not None, f"{what} declares no range"
        for number in FAR:
            value = number
            if "float" in option.type:
                value = float(number)
            elif option.type.startswith("list"):
                value = [number]
            began = time.process_time()
            python = said_by_python(kind, name, path, NEEDED.get(name, {}) | {short: value})
            assert time.process_time() - began < SECONDS, f"{what} {value}"
            by_command_line = said_by_command_line(kind, name, key, value)
            assert by_command_line == refusal_of(option.range, key, value), f"{what} {value}"
            if refusal := refusal_of(option.range, short, value):
                said = re.sub(r"^\w+\.| of \w+", "", python or "")
                # PyTorch may refuse a part's size first.
                assert said == refusal or "memory" in str(python), what


def refusal_of(declared, option, value):
    try:
        declared.check(option, value)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("declared", "text", "inside", "outside"),
    [
        (Range(0, above=True), "above 0", [1e-9, 1e300], [0]),
        (Range(0, 1, below=True), "at least 0 and below 1", [0, 0.999], [1, -1]),
    ],
)
def test_a_range_contains_what_it_says(declared, text, inside, outside):
    for value in [*inside, None, "word", inside]:
        declared.check("x", value)
    for value in [*outside, float("nan"), float("inf"), float("-inf")]:
        refusal = refusal_of(declared, "x", value)
        assert text in refusal
        assert refusal_of(declared, "x", [*inside, value]) == refusal


def test_a_plugins_part_has_its_ranges_checked_as_the_built_in_ones():
    class Halving(Norm):
        @in_range
        def __init__(
            self,
            channels: int,
            share: "Probability" = 0.5,
            step: Annotated[int, Range(2)] | None = None,
            where: "OnlyForTypeCheckers" = None,  # as a plugin writes it under TYPE_CHECKING
        ) -> None:
            super().__init__()

    Halving(4, 0.5, None)
    with pytest.raises(
        ValueError, match="share of Halving must be at least 0 and at most 1, not 2"
    ):
        Halving(4, 2)
    with pytest.raises(ValueError, match="step of Halving must be at least 2, not 1"):
        Halving(4, step=1)


def test_a_word_that_an_option_does_not_accept_is_refused_from_python_too():
    with pytest.raises(
        ValueError, match=r"form of LipschitzNorm .*'paper' or 'released'.*'relaesed'"
    ):
        LipschitzNorm(4, form="relaesed")
    with pytest.raises(ValueError, match=r"mode of SpectralNorm"):
        SpectralNorm(4, mode="limit")
