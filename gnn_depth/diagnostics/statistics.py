"""Statistics of every layer in a step, merged over batches and processes: measures are computed
from them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.diagnostics import measures as pure
from gnn_depth.diagnostics.hooks import InputHooks
from gnn_depth.diagnostics.log import Quantity
from gnn_depth.diagnostics.moments import RowMoments, Sums, sum_of_squares, unfinished_moments
from gnn_depth.graph import Graph
from gnn_depth.registry import unknown

Edges: TypeAlias = tuple[Tensor, int]  # an edge_index, and the number of nodes that messages go to


@dataclass
class Processes:
    """The processes that train together."""

    count: int = 1
    shared: bool = False  # True if all have the same batches, not parts of them
    device: torch.device | str = "cpu"  # of what they exchange
    _agreed: dict[object, list[int]] = field(default_factory=dict, repr=False)

    def gather(self, x: Tensor) -> Float[Tensor, "processes ..."]:
        """A tensor of every process, of equal shape in all."""
        everywhere = [torch.empty_like(x) for _ in range(self.count)]
        torch.distributed.all_gather(everywhere, x.contiguous())
        return torch.stack(everywhere)

    def agreed(self, what: str, sizes: Sequence[int]) -> list[int]:
        """The maximum of each size over all processes, computed once: a process may have no rows of
        a layer.

        Raises:
            ValueError: A size is above its maximum in the first measured step, or there are more or
                fewer sizes.
        """
        if what not in self._agreed:
            here = torch.tensor(sizes, device=self.device)
            self._agreed[what] = self.gather(here).amax(0).tolist()
        known = self._agreed[what]
        if len(sizes) != len(known) or any(
            size > most for size, most in zip(sizes, known, strict=True)
        ):
            raise ValueError(
                f"{what} are {list(sizes)}, and were at most {known} in the first measured step: "
                "several processes "
                "cannot compare them."
            )
        return known


class Statistic(ABC):
    """A statistic of a matrix's rows that merges over batches and processes."""

    needs_edges: bool = False

    @abstractmethod
    def of(self, x: Tensor, edges: Edges | None) -> Any:
        """The statistic of a matrix."""

    @abstractmethod
    def joined(self, parts: Sequence[Any], device: torch.device | str) -> Any:
        """Merge the statistics of several parts of the rows; without parts, the statistic of no
        rows."""

    @abstractmethod
    def everywhere(self, layers: Sequence[Any], processes: Processes) -> Any:
        """Merge the statistics of every layer over all processes, in the form that measures
        take."""


class Moments(Statistic):
    """Row moments."""

    def of(self, x: Tensor, edges: Edges | None) -> RowMoments | Sums:
        return unfinished_moments(x)

    def joined(
        self, parts: Sequence[RowMoments | Sums], device: torch.device | str
    ) -> RowMoments | Sums:
        if not parts:
            return RowMoments.empty(0, device)
        if len(parts) == 1 and isinstance(parts[0], Sums) and len(parts[0].parts) == 1:
            return parts[0]
        finished = [part.moments() if isinstance(part, Sums) else part for part in parts]
        return finished[0] if len(finished) == 1 else RowMoments.stack(finished).merged()

    def everywhere(self, layers: Sequence[RowMoments | Sums], processes: Processes) -> RowMoments:
        sums = [layer.parts[0] for layer in layers if isinstance(layer, Sums)]
        if (
            len(sums) == len(layers) and len({len(mean) for _, mean, _ in sums}) == 1
        ):  # all at once: much faster
            moments = Sums(sums).stacked()
        else:
            moments = RowMoments.stack(
                [one.moments() if isinstance(one, Sums) else one for one in layers]
            )
        if processes.count > 1:
            (width,) = processes.agreed("the widest layer's channels", [moments.mean.shape[-1]])
            of_each = RowMoments.unpack(
                processes.gather(moments.widened(width).pack()), len(layers)
            )
            moments = of_each.side_by_side() if processes.shared else of_each.merged()
        return replace(
            moments, scale=torch.where(moments.count > 0, moments.scale, torch.nan)
        )  # no rows, no values


class Totals(Statistic):
    """A numerator and a denominator, which are both sums over nodes."""

    def __init__(
        self, of: Callable[[Tensor, Edges | None], tuple[Any, Any]], needs_edges: bool = False
    ) -> None:
        self._of = of
        self.needs_edges = needs_edges

    def of(self, x: Tensor, edges: Edges | None) -> Float[Tensor, "2"]:
        if self.needs_edges and edges is None:
            return torch.full((2,), torch.nan, dtype=torch.float64, device=x.device)
        return torch.stack(
            [
                torch.as_tensor(part, dtype=torch.float64, device=x.device)
                for part in self._of(x, edges)
            ]
        )

    def joined(self, parts: Sequence[Tensor], device: torch.device | str) -> Float[Tensor, "2"]:
        return (
            torch.stack(list(parts)).sum(0)
            if parts
            else torch.zeros(2, dtype=torch.float64, device=device)
        )

    def everywhere(
        self, layers: Sequence[Tensor], processes: Processes
    ) -> Float[Tensor, "layers 2"]:
        here = torch.stack(list(layers))
        return here if processes.count == 1 else processes.gather(here).sum(0)


class Triangles(Statistic):
    """A triangular matrix with the same singular values."""

    def of(self, x: Tensor, edges: Edges | None) -> Tensor:
        return pure.triangle(x.flatten(0, -2) if x.ndim > 1 else x[:, None])

    def joined(self, parts: Sequence[Tensor], device: torch.device | str) -> Tensor:
        if not parts:
            return torch.zeros(0, 0, dtype=torch.float64, device=device)
        return parts[0] if len(parts) == 1 else pure.triangle(torch.cat(list(parts)))

    def everywhere(self, layers: Sequence[Tensor], processes: Processes) -> list[Tensor]:
        if processes.count > 1:
            widths = processes.agreed(
                "channels of the layers", [layer.shape[1] for layer in layers]
            )
            sizes = [
                (width - len(layer), width - layer.shape[1])
                for layer, width in zip(layers, widths, strict=True)
            ]
            square = [
                nn.functional.pad(one, (0, right, 0, down))
                for one, (down, right) in zip(layers, sizes, strict=True)
            ]
            gathered = processes.gather(torch.cat([one.flatten() for one in square]))
            parts = torch.split(gathered, [width**2 for width in widths], dim=1)
            layers = [
                pure.triangle(part.reshape(-1, max(width, 1)))
                for part, width in zip(parts, widths, strict=True)
            ]
        return [layer if layer.shape[1] else layer.new_full((1, 1), torch.nan) for layer in layers]


MOMENTS, TRIANGLES = Moments(), Triangles()
ENERGY = Totals(lambda x, edges: (pure.total_squared_difference(x, edges[0]), edges[1]), True)  # type: ignore[index]
DISTANCE = Totals(lambda x, edges: pure.total_average_distance(x, edges[0]), True)  # type: ignore[index]
ZEROS = Totals(lambda x, edges: ((x == 0).sum(), x.numel()))
SQUARES = Totals(lambda x, edges: (sum_of_squares(x), x.numel()))


@dataclass(frozen=True, kw_only=True)
class Measure(Quantity):
    """A number for every layer, and how it is computed.

    Attributes:
        reads: What it is computed from: the ``states`` that enter the layers, their ``gradients``,
            the gradients of the layers' ``parameters``, or the ``updates`` of these.
        compute: Gives the values of all layers from their statistics.
        statistic: The statistic of states or gradients, or of all entries of parameters' gradients.
        between: True if it compares each layer with the next, and so has no value for the last.
    """

    reads: Literal["states", "gradients", "parameters", "updates"]
    compute: Callable[[Any], Tensor]
    statistic: Statistic = MOMENTS
    between: bool = False


def _ratio(totals: Float[Tensor, "layers 2"]) -> Float[Tensor, "layers"]:
    return totals[:, 0] / totals[:, 1]


def _root(totals: Float[Tensor, "layers 2"]) -> Float[Tensor, "layers"]:
    return totals[:, 0].sqrt()


def _each(measure: Callable[[Any], Tensor]) -> Callable[[Sequence[Any]], Float[Tensor, "layers"]]:
    """Measure layer by layer."""
    return lambda layers: torch.stack([measure(layer) for layer in layers])


def _growth(moments: RowMoments) -> Float[Tensor, "pairs"]:
    return 10 ** pure.log10_growth(pure.log10_similarity(moments))


def _expansion(moments: RowMoments) -> Float[Tensor, "pairs"]:
    log10_mu = pure.log10_similarity(moments)
    # The last layer that has rows, found without waiting for the device.
    places = torch.arange(1, len(log10_mu) + 1, device=log10_mu.device)
    last = log10_mu.index_select(0, ((moments.count > 0) * places).argmax(keepdim=True))
    return 10 ** pure.log10_total_growth(
        torch.stack([log10_mu[:-1], last.expand(len(log10_mu) - 1)], -1)
    )


def _mean(moments: RowMoments) -> Float[Tensor, "layers"]:
    return moments.scale * moments.mean[:, 0]


def _deviation(moments: RowMoments) -> Float[Tensor, "layers"]:
    return moments.scale * (moments.centred / moments.count).sqrt()


def update_ratio(module: nn.Module, before: Sequence[Tensor]) -> Float[Tensor, ""]:
    """The norm of the change of a module's parameters, divided by their norm before it; NaN if it
    has none."""
    if not before:
        return torch.full((), torch.nan, dtype=torch.float64)
    changes = [
        sum_of_squares(p.detach() - old) for p, old in zip(module.parameters(), before, strict=True)
    ]
    return (
        torch.stack(changes).sum() / torch.stack([sum_of_squares(old) for old in before]).sum()
    ).sqrt()


_state, _gradient = partial(Measure, reads="states"), partial(Measure, reads="gradients")
_parameter, _update = partial(Measure, reads="parameters"), partial(Measure, reads="updates")
_rank = partial(_state, log10=False, statistic=TRIANGLES)

#: Every measure, by name.
MEASURES = {
    measure.name: measure
    for measure in (
        _state("representation_norm", "representation_norm/log10", "||X||", compute=pure.norm),
        _state(
            "representation_similarity",
            "representation_similarity/mu_log10",
            "µ(X)",
            compute=pure.similarity,
        ),
        _state(
            "representation_similarity_relative",
            "representation_similarity/relative_log10",
            "µ(X) / ||X||",
            compute=pure.relative_similarity,
        ),
        _state(
            "dirichlet_energy",
            "dirichlet_energy/log10",
            "Dirichlet energy",
            compute=_ratio,
            statistic=ENERGY,
        ),
        _state(
            "mean_average_distance",
            "mean_average_distance/log10",
            "MAD",
            compute=_ratio,
            statistic=DISTANCE,
        ),
        _rank(
            "effective_rank", "rank/effective", "effective rank", compute=_each(pure.effective_rank)
        ),
        _rank(
            "numerical_rank", "rank/numerical", "numerical rank", compute=_each(pure.numerical_rank)
        ),
        _state(
            "zero_activations",
            "zero_activations/share",
            "zeros in X",
            log10=False,
            compute=_ratio,
            statistic=ZEROS,
        ),
        _gradient(
            "gradient_norm_hidden", "gradient_norm/hidden_log10", "||dLoss/dX||", compute=pure.norm
        ),
        _gradient(
            "gradient_similarity", "gradient_similarity/mu_log10", "µ(G)", compute=pure.similarity
        ),
        _gradient(
            "gradient_similarity_relative",
            "gradient_similarity/relative_log10",
            "µ(G) / ||G||",
            compute=pure.relative_similarity,
        ),
        _gradient(
            "gradient_growth",
            "gradient_expansion/growth_log10",
            "µ(G^l) / µ(G^(l+1))",
            product=True,
            compute=_growth,
            between=True,
        ),
        _gradient(
            "gradient_expansion",
            "gradient_expansion/total_log10",
            "µ(G^l) / µ(G^L)",
            compute=_expansion,
            between=True,
        ),
        _parameter(
            "gradient_norm_parameters",
            "gradient_norm/parameters_log10",
            "||dLoss/dW||",
            compute=_root,
            statistic=SQUARES,
        ),
        _parameter(
            "gradient_mean", "gradient_entries/mean", "mean of dLoss/dW", log10=False, compute=_mean
        ),
        _parameter(
            "gradient_std",
            "gradient_entries/std_log10",
            "deviation of dLoss/dW",
            compute=_deviation,
        ),
        _parameter(
            "gradient_sparsity",
            "gradient_entries/zeros",
            "zeros in dLoss/dW",
            log10=False,
            compute=_ratio,
            statistic=ZEROS,
        ),
        _update("update_ratio", "update_ratio/log10", "||update|| / ||W||", compute=torch.stack),
    )
}


def measures_called(names: Sequence[str]) -> list[Measure]:
    """The measures of these names; a ValueError if one is unknown."""
    for name in names:
        if name not in MEASURES:
            raise ValueError(unknown("measure", name, MEASURES))
    return [MEASURES[name] for name in dict.fromkeys(names)]


class LayerStatistics:
    """Collects the statistics of every layer that some measures need, over the passes of a step.

    Args:
        inputs: For each layer, the module whose input is its hidden state: usually the layer
            itself.
        layers: The layers, whose parameters are measured.
        measures: The measures.
        edge_index: The edges, for layers that do not take them as an argument.
        repeats: True if each further call of a layer in a pass counts as another layer.
        root: Calls count only while this module is in training mode; None if they always do.

    Attributes:
        hooks: The hooks on the layers.
        without_edges: True if a measure needed the edges of a layer that had none fitting its rows.
        reads_updates: True if a measure needs :meth:`keep_parameters` before the optimizer's step.
    """

    def __init__(
        self,
        inputs: Sequence[nn.Module],
        layers: Sequence[nn.Module],
        measures: Sequence[Measure],
        edge_index: Tensor | Graph | None = None,
        repeats: bool = False,
        root: nn.Module | None = None,
    ) -> None:
        self.layers, self.measures = layers, measures
        self.without_edges = False
        self._edge_index = edge_index
        self._of_states = list(dict.fromkeys(m.statistic for m in measures if m.reads == "states"))
        of_state = self._take if self._of_states else None
        self._needs_edges = any(statistic.needs_edges for statistic in self._of_states)
        of_gradient = unfinished_moments if any(m.reads == "gradients" for m in measures) else None
        self.hooks = InputHooks(inputs, of_state, of_gradient, repeats, root)
        self.reads_updates = any(m.reads == "updates" for m in measures)
        self._before: list[list[Tensor]] = []

    def _take(self, x: Tensor, args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        edges, sources = None, x
        if self._needs_edges:
            graph = next(
                (item for item in (*args, *named.values()) if isinstance(item, Graph)), None
            )
            sources = x if graph is None else graph.fetch(x.detach())
            edges = edges_of(sources, args, named, self._edge_index)
            self.without_edges |= edges is None
        return [
            statistic.of(sources if statistic.needs_edges else x, edges)
            for statistic in self._of_states
        ]

    def merged(self, processes: Processes, loss_scale: Tensor | None = None) -> dict[Any, Any]:
        """The statistics of every layer over all batches and processes: those of states, and
        ``"gradients"``.

        Gradients are those of the mean loss of all processes, without the loss scale of mixed
        precision; they are zero if no loss depends on a state. A layer that was not called has no
        rows. All processes have to call this method.
        """
        hooks, device = self.hooks, processes.device
        count = max([len(self.layers) - 1, *hooks.called]) + 1
        if processes.count > 1:
            (count,) = processes.agreed("numbers of layers", [count])
        found: dict[Any, Any] = {}
        for number, statistic in enumerate(self._of_states):
            parts = [
                [of_call[number] for of_call in hooks.states.get(place, ())]
                for place in range(count)
            ]
            found[statistic] = statistic.everywhere(
                [statistic.joined(each, device) for each in parts], processes
            )
        if any(measure.reads == "gradients" for measure in self.measures):
            layers, gradients, without = [], hooks.gradients, hooks.without
            for place in range(count):
                zeros = [
                    RowMoments.of(torch.zeros(shape, device=device))
                    for shape in without.get(place, ())
                ]
                layers.append(MOMENTS.joined([*gradients.get(place, ()), *zeros], device))
            factor = 1.0 if processes.shared else 1.0 / processes.count
            moments = MOMENTS.everywhere(layers, processes)
            found["gradients"] = moments.times(
                factor if loss_scale is None else factor / loss_scale
            )
        return found

    def values(self, merged: dict[Any, Any]) -> dict[str, Float[Tensor, "layers"]]:
        """The values of all measures of states and gradients."""
        keys = {m: m.statistic if m.reads == "states" else "gradients" for m in self.measures}
        return {
            m.name: m.compute(merged[keys[m]])
            for m in self.measures
            if m.reads in ("states", "gradients")
        }

    def of_parameters(self, loss_scale: Tensor | None = None) -> dict[str, Float[Tensor, "layers"]]:
        """The values of all measures of the parameters' gradients as they are now; NaN for layers
        without parameters.

        The loss scale is given if it is still in them.
        """
        measures = [measure for measure in self.measures if measure.reads == "parameters"]
        if not measures:
            return {}
        values: dict[str, Tensor] = {}
        for statistic in dict.fromkeys(measure.statistic for measure in measures):
            joined = [of_gradients(layer, statistic) for layer in self.layers]
            merged = statistic.everywhere(joined, Processes())
            values |= {m.name: m.compute(merged) for m in measures if m.statistic is statistic}
        trained = [
            any(parameter.requires_grad for parameter in layer.parameters())
            for layer in self.layers
        ]
        for measure in measures:
            value = values[measure.name]
            value = (
                value if loss_scale is None or measure.statistic is ZEROS else value / loss_scale
            )
            values[measure.name] = value.masked_fill(
                ~torch.tensor(trained, device=value.device), torch.nan
            )
        return values

    def keep_parameters(self) -> None:
        """Copy the parameters before the optimizer's step, if a measure compares them with those
        after it."""
        if self.reads_updates:
            self._before = [
                [p.detach().clone() for p in layer.parameters()] for layer in self.layers
            ]

    def of_updates(self) -> dict[str, Float[Tensor, "layers"]]:
        """The values of all measures of the change since :meth:`keep_parameters`, whose copies are
        then forgotten."""
        pairs, self._before = list(zip(self.layers, self._before, strict=False)), []
        measures = [measure for measure in self.measures if measure.reads == "updates"]
        ratios = [update_ratio(layer, before) for layer, before in pairs] if measures else []
        return {measure.name: measure.compute(ratios) for measure in measures}


def of_gradients(module: nn.Module, statistic: Statistic) -> Any:
    """A statistic of the gradients of all parameters of a module, their entries as rows of one
    column."""
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    dense = [
        gradient.coalesce().values() if gradient.is_sparse else gradient for gradient in gradients
    ]
    device = next(module.parameters(), torch.empty(0)).device
    entries = [gradient.flatten() if statistic is MOMENTS else gradient for gradient in dense]
    return statistic.joined([statistic.of(of_parameter, None) for of_parameter in entries], device)


def edges_of(
    x: Tensor, args: tuple[Any, ...], named: dict[str, Any], given: Tensor | Graph | None = None
) -> Edges | None:
    """The edges that a layer was called with, or the given ones; None if there are none that fit
    its rows."""
    if args and isinstance(args[0], tuple | list):  # sources and targets, which are other rows
        return None
    for item in (given,) if given is not None else (*args, *named.values()):
        edges = _edges(item)
        if edges is not None and x.ndim == 2 and int(edges.max() if edges.numel() else -1) < len(x):
            return edges, item.num_nodes if isinstance(item, Graph) else len(x)
    return None


def _edges(item: Any) -> Tensor | None:
    """The ``edge_index`` of a graph, or of a sparse adjacency matrix whose rows are targets."""
    if isinstance(item, Graph):
        return item.edge_index
    if hasattr(item, "sparse_sizes"):  # torch_sparse.SparseTensor
        row, column, _ = item.coo()
        return torch.stack([column, row])
    if isinstance(item, Tensor) and item.layout is not torch.strided:
        return item.to_sparse_coo().coalesce().indices().flip(0)  # type: ignore[no-untyped-call]
    is_edges = (
        isinstance(item, Tensor) and item.dtype == torch.long and item.ndim == 2 and len(item) == 2
    )
    return item if is_edges else None
