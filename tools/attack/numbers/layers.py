"""Every measure of watch and callbacks against autograd in float64.

The expected values are the formulas of the measures, written out in NumPy over the states that
enter the layers and their gradients by ``torch.autograd.grad``.
"""

import copy
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import lightning as L
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

import gnn_depth
from gnn_depth.diagnostics import MEASURES, LayerMeasures
from tools.attack.numbers import models as drawn
from tools.attack.numbers.models import Data, Drawn, Loop

RATE = 0.01  # of the update
#: The limit of a layer's propagation is known to layers of this package alone.
NAMES = [name for name, measure in MEASURES.items() if measure.statistic.side is None]
#: Loops that a LightningModule writes by hand, and one that looks at gradients after the step.
BY_HAND: tuple[Loop, ...] = (drawn.two_losses, drawn.accumulated, drawn.evaluated_again)
NOT_IN_LIGHTNING: tuple[Loop, ...] = (drawn.monitored,)

Values = dict[str, list[float]]


class Column:
    """What enters a layer in the batches of a step, and the gradients of the loss."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.states: list[np.ndarray] = []
        self.gradients: list[np.ndarray] = []
        self.of_parameters: Any = 0.0

    @property
    def update(self) -> float:
        """The size of the update beside that of the parameters."""
        size = parameters_to_vector(self.module.parameters()).norm().item()
        return RATE * float(np.linalg.norm(self.of_parameters)) / size


def autograd(model: Drawn, loop: Loop, data: Data, by_call: bool) -> list[Column]:
    """The columns of a loop: one for each call in a pass, or for each layer."""
    twin = copy.deepcopy(model)
    if twin.kind == "reentrant":
        twin.kind = "checkpoint"  # gives the same numbers, and torch.autograd.grad works
    columns = [Column(conv) for conv in twin.convs]
    of_calls = [columns[place] for place in twin.order]
    if by_call:
        columns = of_calls = [Column(twin.convs[place]) for place in twin.order]
    # The graph is kept, as the loop itself goes backward through it, too.
    for states, loss in loop(twin, data):
        gradients = torch.autograd.grad(loss, states, retain_graph=True)
        for column, state, gradient in zip(of_calls, states, gradients, strict=True):
            column.states.append(state.detach().numpy())
            column.gradients.append(gradient.numpy())
        for column in columns:
            parameters = list(column.module.parameters())
            slopes = torch.autograd.grad(loss, parameters, retain_graph=True)
            column.of_parameters = column.of_parameters + parameters_to_vector(slopes).numpy()
    return columns


# ---- the formulas ----


def expected_values(columns: Sequence[Column], edges: np.ndarray) -> Values:
    """The values of all measures but those that need a layer's own declaration."""
    values: Values = {name: [] for name in NAMES}
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
            "energy_normalized": _normalized(column.states, edges) / np.linalg.norm(x) ** 2,
            "mean_average_distance": distances.mean(),
            "effective_rank": _effective_rank(singular),
            "numerical_rank": (singular**2).sum() / singular.max() ** 2,
            "zero_activations": (x == 0).mean(),
            "gradient_effective_rank": _effective_rank(np.linalg.svd(g, compute_uv=False)),
            "gradient_numerical_rank": (np.linalg.norm(g) / np.linalg.norm(g, 2)) ** 2,
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


def _normalized(states: Sequence[np.ndarray], edges: np.ndarray) -> float:
    proper = edges[:, edges[0] != edges[1]]
    degree = np.bincount(proper[1], minlength=len(states[0]))
    scaled = [state / np.sqrt(1 + degree)[:, None] for state in states]
    return sum(_energy(state, edges) for state in scaled) / 2


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


# ---- the two ways to measure ----


def watched(model: Drawn, loop: Loop, data: Data) -> list[str]:
    """What differs in a watch: for a model in a loop."""
    columns = autograd(model, loop, data, by_call=True)
    with gnn_depth.watch(model, "convs.*", NAMES) as watch:
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
    """Trains a model by a loop, as one step of its optimizer."""

    def __init__(self, model: Drawn, loop: Loop, data: Data) -> None:
        super().__init__()
        self.model, self.loop, self.data = model, loop, data
        self.automatic_optimization = loop not in BY_HAND
        self.passes = loop(model, data)

    def train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader([0])

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor | None:
        if self.automatic_optimization:
            return next(self.passes)[1]
        self.optimizers().zero_grad()
        drawn.exhausted(self.loop, self.model, self.data)
        self.optimizers().step()
        return None

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), RATE)


def called_back(model: Drawn, loop: Loop, data: Data) -> list[str]:
    """What differs in a callback: for a model in a loop."""
    columns = autograd(model, loop, data, by_call=False)
    measures = LayerMeasures(NAMES, "model.convs.*")
    trainer = L.Trainer(
        max_epochs=1,
        accelerator="cpu",
        precision="64-true",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[measures],
    )
    trainer.fit(Trained(model, loop, data))
    return list(different(measures.frame(), expected_values(columns, data.edges.numpy())))


def different(frame: Any, expected: Values) -> Iterator[str]:
    """Each measure of a frame whose values are not the expected ones, with both."""
    for name, wanted in expected.items():
        found = frame[frame.measure == name].value.to_numpy()
        if MEASURES[name].between and np.isnan(found[len(wanted) :]).all():
            found = found[: len(wanted)]  # beside other measures the last layer is empty
        is_equal = found.shape == (len(wanted),) and np.allclose(
            found, wanted, 1e-9, 1e-14, equal_nan=True
        )
        if not is_equal:
            yield f"{name} is {found.tolist()} instead of {wanted}"
