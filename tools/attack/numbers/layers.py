"""Every measure of watch and callbacks against autograd in float64.

The expected values are the formulas of the measures, written out in NumPy over the states that
enter the layers and their gradients by ``torch.autograd.grad``.
"""

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import lightning as L
import numpy as np
import torch
from torch import Tensor, nn

import gnn_depth
from gnn_depth.diagnostics import MEASURES, LayerMeasures, LipschitzConstants
from tools.attack.numbers import Trial
from tools.attack.numbers import models as drawn
from tools.attack.numbers.models import KINDS, LOOPS, Data, Drawn, Loop

SEEDS = 1  # of each model and loop
RATE = 0.01  # of the update
#: Loops that a LightningModule can be written with: automatically with accumulated batches, or by
#: hand.
AUTOMATIC: tuple[Loop, ...] = (
    drawn.one_pass,
    drawn.accumulated,
    drawn.penalty,
    drawn.perturbed,
    drawn.without_autograd,
)
BY_HAND: tuple[Loop, ...] = (drawn.two_losses, drawn.evaluated_again)

Values = dict[str, list[float]]


def trials(seed: int, per_mille: int = 1000) -> Iterator[Trial]:
    """Compare the values of watch and callbacks for every kind of model, in every loop."""
    all_trials: list[tuple[str, Callable[[], str]]] = []
    for number in range(seed, seed + SEEDS):
        for kind in KINDS:
            for loop in LOOPS:
                name = f"{kind} in {loop.__name__} {number}"
                if drawn.is_possible(kind, loop):
                    all_trials.append((f"watch of {name}", _trial(watched, kind, loop, number)))
                    if loop in AUTOMATIC or loop in BY_HAND:
                        called = _trial(_called_back, kind, loop, number)
                        all_trials.append((f"callbacks of {name}", called))
    every = max(1000 // per_mille, 1)
    for name, differences in all_trials[seed % every :: every]:
        yield name, differences()


def _trial(compare: Callable, kind: str, loop: Loop, seed: int) -> Callable[[], str]:
    def differences() -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return "; ".join(compare(Drawn(kind, seed), loop, Data(seed)))
            except Exception as error:
                return f"{type(error).__name__}: {error}"

    return differences


class Column:
    """What enters a layer in the batches of a step, and the gradients of the loss."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.states: list[np.ndarray] = []
        self.gradients: list[np.ndarray] = []
        self.of_parameters: np.ndarray = np.empty(0)
        self.update = np.nan


def autograd(model: Drawn, loop: Loop, data: Data, by_call: bool) -> tuple[list[Column], Drawn]:
    """The columns of a loop: one for each call in a pass, or for each layer; and the model after
    it."""
    twin = copy.deepcopy(model)
    if twin.kind == "reentrant":
        twin.kind = "checkpoint"  # gives the same numbers, and torch.autograd.grad works
    places = list(range(len(twin.order))) if by_call else list(twin.order)
    columns = [Column(twin.convs[place]) for place in twin.order]
    if not by_call:
        columns = [Column(conv) for conv in twin.convs]
    parameters = [list(column.module.parameters()) for column in columns]
    totals: list[list[Any]] = [[0.0] * len(of_column) for of_column in parameters]
    # The graph is kept, as the loop itself goes backward through it, too.
    for states, loss in loop(twin, data):
        gradients = torch.autograd.grad(loss, states, retain_graph=True)
        for place, state, gradient in zip(places, states, gradients, strict=True):
            columns[place].states.append(state.detach().numpy())
            columns[place].gradients.append(gradient.numpy())
        for total, of_column in zip(totals, parameters, strict=True):
            slopes = torch.autograd.grad(loss, of_column, retain_graph=True)
            total[:] = [old + slope for old, slope in zip(total, slopes, strict=True)]
    for column, total, of_column in zip(columns, totals, parameters, strict=True):
        column.of_parameters = torch.cat([slope.flatten() for slope in total]).numpy()
        size = torch.cat([parameter.detach().flatten() for parameter in of_column]).norm()
        column.update = float(RATE * np.linalg.norm(column.of_parameters) / size)
    return columns, twin


# ---- the formulas ----


def expected_values(columns: Sequence[Column], edges: np.ndarray) -> Values:
    """The values of all measures."""
    values: Values = {name: [] for name in MEASURES}
    mus = []
    for column in columns:
        # The batches of a step count as parts of one.
        x, g = np.concatenate(column.states), np.concatenate(column.gradients)
        w = column.of_parameters
        mus.append(_mu(g))
        singular = np.linalg.svd(x, compute_uv=False)
        energies = [_energy(state, edges) for state in column.states]
        distances = np.concatenate([_distances(state, edges) for state in column.states])
        of_column = {
            "representation_norm": np.linalg.norm(x),
            "representation_similarity": _mu(x),
            "representation_similarity_relative": _mu(x) / np.linalg.norm(x),
            "dirichlet_energy": sum(energies) / len(x),
            "mean_average_distance": distances.mean(),
            "effective_rank": _effective_rank(singular),
            "numerical_rank": (singular**2).sum() / singular.max() ** 2,
            "zero_activations": (x == 0).mean(),
            "gradient_norm_hidden": np.linalg.norm(g),
            "gradient_similarity": _mu(g),
            "gradient_similarity_relative": _mu(g) / np.linalg.norm(g),
            "gradient_norm_parameters": np.linalg.norm(w),
            "gradient_mean": w.mean(),
            "gradient_std": w.std(),
            "gradient_sparsity": (w == 0).mean(),
            "update_ratio": column.update,
        }
        for name, value in of_column.items():
            values[name].append(float(value))
    values["gradient_growth"] = [float(mu / after) for mu, after in pairwise(mus)]
    values["gradient_expansion"] = [float(mu / mus[-1]) for mu in mus[:-1]]
    return values


def _mu(x: np.ndarray) -> np.floating:
    return np.linalg.norm(x - x.mean(0))


def _energy(x: np.ndarray, edges: np.ndarray) -> float:
    return float(((x[edges[0]] - x[edges[1]]) ** 2).sum())


def _distances(x: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The mean cosine distance to its neighbours of every node that has some."""
    found = []
    for node in range(len(x)):
        neighbours = edges[0][(edges[1] == node) & (edges[0] != node)]
        apart = []
        for other in neighbours:
            sizes = np.linalg.norm(x[node]), np.linalg.norm(x[other])
            if 0 in sizes:
                apart.append(0.0 if sizes[0] == sizes[1] else 1.0)
            else:
                apart.append(1 - x[node] @ x[other] / (sizes[0] * sizes[1]))
        if apart:
            found.append(np.mean(apart))
    return np.array(found)


def _effective_rank(singular: np.ndarray) -> float:
    shares = singular / singular.sum()
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _output(module: nn.Module, kind: str, state: Tensor, edges: Tensor) -> Tensor:
    """A layer's output at a state; the first one of a tuple."""
    if kind == "tuple":
        return module((state, edges))
    out = module(state, edges)
    return out[0] if isinstance(out, tuple) else out


def _constant(module: nn.Module, kind: str, x: np.ndarray, edges: Tensor) -> float:
    """The largest singular value of a layer's Jacobian, as a matrix."""
    called = partial(_output, module, kind, edges=edges)
    jacobian = torch.func.jacrev(called)(torch.from_numpy(x)).reshape(x.size, x.size)
    return torch.linalg.matrix_norm(jacobian.detach(), 2).item()


# ---- the two ways to measure ----


def watched(model: Drawn, loop: Loop, data: Data) -> list[str]:
    """What differs in a watch: see :func:`trials`."""
    columns, _ = autograd(model, loop, data, by_call=True)
    with gnn_depth.watch(model, "convs.*", list(MEASURES)) as watch:
        drawn.exhausted(loop, model, data)
        _update(model)
        watch.step()
    notes = [f"note: {note}" for note in watch.notes]
    return notes + list(different(watch.frame(), expected_values(columns, data.edges.numpy())))


def _update(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= RATE * parameter.grad


class Trained(L.LightningModule):
    """Trains a model by a loop, as one optimizer step of one or two batches."""

    def __init__(self, model: Drawn, loop: Loop, data: Data) -> None:
        super().__init__()
        self.model, self.loop, self.data = model, loop, data
        self.automatic_optimization = loop in AUTOMATIC
        self.passes = loop(model, data)

    @property
    def batches(self) -> int:
        return 2 if self.loop is drawn.accumulated else 1

    def train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(range(self.batches))

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor | None:
        if self.automatic_optimization:
            if self.batches > 1:  # Lightning divides by the number of accumulated batches
                return self.batches * self.data.loss(self.model, batch_idx)
            return next(self.passes)[1]
        self.optimizers().zero_grad()
        for _ in self.loop(self.model, self.data):
            pass
        self.optimizers().step()
        return None

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), RATE)


def _called_back(model: Drawn, loop: Loop, data: Data) -> Iterator[str]:
    columns, _ = autograd(model, loop, data, by_call=False)
    expected = expected_values(columns, data.edges.numpy())
    first = [_constant(c.module, model.kind, c.states[0], data.edges) for c in columns]
    pattern = "model.convs.*"
    named = LayerMeasures(list(MEASURES), pattern)
    lipschitz = LipschitzConstants(pattern, 1, 500, 1e-8)
    trainer = L.Trainer(
        max_epochs=1,
        accelerator="cpu",
        precision="64-true",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accumulate_grad_batches=2 if loop is drawn.accumulated else 1,
        callbacks=[named, lipschitz],
    )
    trainer.fit(Trained(model, loop, data))
    yield from different(named.frame(), expected)
    frame = lipschitz.frame()
    # Without autograd in a first pass, or before the loss's, the layer's input is another one.
    yield from different(
        frame[frame.measure == "lipschitz_measured"], {"lipschitz_measured": first}, 1e-6
    )


def different(frame: Any, expected: Values, tolerance: float = 1e-9) -> Iterator[str]:
    """Each measure of a frame whose values are not the expected ones, with both."""
    for name, wanted in expected.items():
        found = frame[frame.measure == name].value.to_numpy()
        if MEASURES.get(name) and MEASURES[name].between and np.isnan(found[len(wanted) :]).all():
            found = found[: len(wanted)]  # beside other measures the last layer is empty
        if not _close(found, np.array(wanted), tolerance):
            yield f"{name} is {found.tolist()} instead of {wanted}"


def _close(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> bool:
    if found.shape != wanted.shape:
        return False
    return bool(np.allclose(found, wanted, tolerance, 1e-14, equal_nan=True))
