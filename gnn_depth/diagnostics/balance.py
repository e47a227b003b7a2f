r"""Measure how far neurons are from balance, and how well the conservation law of their weights
holds.

.. math:: c_i = \sum_{W \in in} \|W_{i:}\|^2 - \sum_a a_i^2 - \sum_{W \in out} \|W_{:i}\|^2, \qquad
    \delta_i = \sum_{W \in in} \langle W_{i:}, \nabla W_{i:} \rangle - \sum_a a_i \nabla a_i
    - \sum_{W \in out} \langle W_{:i}, \nabla W_{:i} \rangle

where biases count as columns of the incoming matrices. The gradient is that of the unscaled loss:
read it after the backward pass and before clipping, and divide it by the loss scale of mixed
precision. Then :math:`\delta = 0`, and c is constant under gradient flow: Mustafa, Bojchevski &
Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023, theorem 2.2 and corollary 2.3.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import lightning as L
import numpy as np
import torch
from jaxtyping import Float
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor, nn

from gnn_depth.diagnostics.callbacks import StepCallback, scaler_of
from gnn_depth.diagnostics.layer_statistics import Measure
from gnn_depth.diagnostics.log import MeasureLog
from gnn_depth.diagnostics.passes import BackwardPasses
from gnn_depth.nn.neurons import Link
from gnn_depth.ranges import Count, NonNegative, in_range

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
STATISTICS = ("mean", "min", "q1", "median", "q3", "max")


# Only the share is shown: all others would be fourteen charts.
SHARE = Measure("balance_share", "balance/share", "median of |c| / all squares", log10=False)
_unshown = partial(Measure, shown=False)
NORMS = (
    _unshown("balance_gradient_weights", "balance/gradient_weights_log10", "||dLoss/dW|| / ||W||"),
    _unshown(
        "balance_gradient_attention", "balance/gradient_attention_log10", "||dLoss/da|| / ||a||"
    ),
)


def _file(name: str, unit: str, around_zero: bool = False) -> Measure:
    tag = f"balance/{name}"
    return _unshown(f"balance_{name}", tag, unit, log10=False, around_zero=around_zero)


NEURONS = [_file(law, law, around_zero=True) for law in ("c", "delta")]
LAWS = [
    _file(f"{law}_{statistic}", f"{statistic} of {law}", around_zero=True)
    for law in ("c", "delta")
    for statistic in STATISTICS
]


def imbalance(link: Link) -> Float[Tensor, "neurons"]:
    """The imbalance c of every neuron."""
    return _total(link, torch.square, -1)


def defect(link: Link) -> Float[Tensor, "neurons"]:
    """The defect delta of every neuron, after a backward pass.

    A gradient that is missing is zero for a parameter that needs none, and unknown for others.
    """
    return _total(link, lambda parameter: parameter * _gradient(parameter), -1)


def size(link: Link) -> Float[Tensor, "neurons"]:
    """The sum of all squared weights around every neuron, the reference size for its imbalance."""
    return _total(link, torch.square, 1)


def relative_imbalance(link: Link) -> Float[Tensor, ""]:
    """The median over the neurons of |c| as a share of :func:`size`, from 0, balanced, to 1."""
    return (imbalance(link).abs() / size(link).clamp_min(1e-30)).median()


@torch.no_grad()
def _total(link: Link, entries: Callable[[Tensor], Tensor], sign: int) -> Float[Tensor, "neurons"]:
    """A function of every entry of the parameters around the neurons, summed by neuron; those that
    are not incoming matrices have a sign."""
    terms = []
    for role in (*link.incoming, *link.attention, *link.outgoing):
        values = entries(role.parameter)
        # Sums of many squares in half precision would overflow.
        values = values.to(torch.promote_types(values.dtype, torch.float32))
        terms.append(role.by_neuron(values))
    total = torch.stack(terms)
    total[len(link.incoming) :] *= sign
    return total.sum(0)


def _gradient(parameter: Tensor) -> Tensor:
    """A dense gradient, which is zero for a frozen parameter, and NaN for others without one."""
    if parameter.grad is not None:
        return parameter.grad.to_dense()  # a strided gradient is returned as it is
    if parameter.requires_grad:
        return torch.full_like(parameter, torch.nan)
    return torch.zeros_like(parameter)


@torch.no_grad()
def laws_of(links: Sequence[Link]) -> Float[Tensor, "2 links neurons"]:
    """The :func:`imbalance` and the :func:`defect` of many links, after a backward pass.

    NaN where a link has fewer neurons than another, or where a gradient is missing.
    """
    if not links:
        return torch.empty(2, 0, 0)
    of_links = [torch.stack([imbalance(link), defect(link)], 1) for link in links]
    padded = nn.utils.rnn.pad_sequence(of_links, padding_value=torch.nan)
    return padded.permute(2, 1, 0).contiguous()


@torch.no_grad()
def norms_of(sets: Sequence[Sequence[Tensor]]) -> Float[Tensor, "2 sets"]:
    """The norms of the parameters of each set, and of their gradients; NaN where a set is empty."""
    device = next((parameters[0].device for parameters in sets if parameters), None)
    norms = torch.full((2, len(sets)), torch.nan, dtype=torch.float64, device=device)
    for place, parameters in enumerate(sets):
        for row, tensors in enumerate((parameters, map(_gradient, parameters))):
            # In float64, as squares of gradients below 1e-19 vanish in float32.
            sizes = [torch.linalg.vector_norm(one, dtype=torch.float64) for one in tensors]
            if sizes:
                norms[row, place] = torch.stack(sizes).square().sum().sqrt()
    return norms


def distribution(
    laws: Float[Tensor, "2 links neurons"], counts: Sequence[int]
) -> Float[Tensor, "2 statistics links"]:
    """Mean, minimum, quartiles and maximum over the neurons of each link.

    NaN where one of its neurons is NaN; ``counts`` has the number of neurons of each link.
    """
    # The padding of links with fewer neurons is NaN and does not count; a neuron that is NaN does.
    quantiles = torch.nanquantile(laws, laws.new_tensor(QUANTILES), dim=2)
    found = torch.cat([laws.nanmean(2)[None], quantiles])
    places = torch.arange(laws.shape[2], device=laws.device)
    is_neuron = places < torch.tensor(counts, device=laws.device)[:, None]
    unknown = (laws.isnan() & is_neuron).any(2)
    return found.masked_fill(unknown, torch.nan).transpose(0, 1)


def change_measures(epsilon: float) -> list[Measure]:
    """The measures of :func:`changes`, in the order of its rows."""
    measures = []
    for kind, form in (("weights", "relative change"), ("attention", "change")):
        changed = f"fraction of {kind} changed by more than {epsilon:g}"
        measures.append(_file(f"changed_{kind}", changed))
        measures.append(_file(f"unchanged_{kind}", f"fraction of {kind} that is unchanged"))
        for statistic in STATISTICS:
            measures.append(_file(f"change_{kind}_{statistic}", f"{statistic} {form} of {kind}"))
    return measures


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten().cpu() for tensor in tensors])


def changes(
    kinds: Sequence[Sequence[Sequence[Tensor]]], before: Mapping[Tensor, Tensor], epsilon: float
) -> Float[Tensor, "measures layers"]:
    r"""The fractions of each layer's parameters with
    :math:`|\theta - \theta_0| > \epsilon |\theta_0|` and with :math:`\theta = \theta_0`, and the
    distribution of the change: relative for matrices, absolute for attention parameters, which may
    start at zero. NaN for a layer that has none.

    Args:
        kinds: The matrices of each layer, and the attention parameters of each.
        before: The initial value of each parameter; without any there are no layers.
        epsilon: The least relative change that counts.
    """
    rows = []
    for is_attention, layers in enumerate(kinds):
        columns = torch.full((len(layers) * bool(before), 8), torch.nan, dtype=torch.float64)
        for column, parameters in zip(columns, layers, strict=False):
            if not parameters:
                continue
            old = _flat([before[parameter] for parameter in parameters])
            change = (_flat(parameters) - old).abs()
            # Infinite for a parameter that was zero, or zero if it is still zero.
            ratios = torch.where(change == 0, change, change / old.abs())
            # Not "greater than", so that a parameter that became NaN counts as changed.
            shares = [~(ratios <= epsilon), ratios == 0]
            moved = (change if is_attention else ratios).double().numpy()
            statistics = [moved.mean(), *np.quantile(moved, QUANTILES, method="nearest")]
            column[:] = torch.tensor([share.double().mean() for share in shares] + statistics)
        rows.append(columns.t())
    return torch.cat(rows)


class Balancedness(StepCallback):
    r"""The imbalance c and defect delta of every neuron, relative gradient norms, and the share of
    changed parameters.

    .. math:: c_i = \|W^l_{i:}\|^2 - (a^l_i)^2 - \|W^{l+1}_{:i}\|^2, \quad
        \delta_i = \langle W^l_{i:}, \nabla W^l_{i:} \rangle - a^l_i \nabla a^l_i
        - \langle W^{l+1}_{:i}, \nabla W^{l+1}_{:i} \rangle, \quad
        \|\nabla W^l\|_F / \|W^l\|_F, \quad \|\nabla a^l\| / \|a^l\|

    and in general as in :mod:`gnn_depth.diagnostics.balance`. The matrices of a layer are taken
    together, and so are its attention parameters. Mustafa, Bojchevski & Burkholz, *Are GATs Out of
    Balance?*, NeurIPS 2023: delta is zero, gradient descent with small steps conserves c, and deep
    networks train if all c are zero. If the law does not hold for a stack, one warning says why.

    Parameters are read before the step. Their gradient is that of the loss over all accumulated
    batches and all processes, before clipping, without the loss scale of mixed precision and
    without the optimizer's weight decay. Relative norms are infinite if a is zero and its gradient
    is not, zero if the gradient is zero, and NaN if a layer has no such parameters or one of them
    has no gradient at the end of the backward pass.

    Values of layer l are those of the l-th layer's output neurons and of its gradients; values of
    layer 0 are those of the first layer's input neurons. Neurons tied by skip connections or shared
    layers count in the first of their layers. Loggers show one measure, ``balance/share``: the
    median over a layer's neurons of :math:`|c|` as a share of all squared weights around the
    neuron, from 0, balanced, to 1. All others are files in ``measures/``: ``balance_c_mean.npz``
    and ``c_min``, ``c_q1``, ``c_median``, ``c_q3``, ``c_max``, the same of delta, and the
    logarithms of the relative gradient norms, ``balance_gradient_weights.npz`` and
    ``..._attention.npz``. ``balance_changed_weights.npz`` and ``balance_changed_attention.npz``
    contain the fractions of parameters with

    .. math:: |\theta_T - \theta_0| > \epsilon |\theta_0|

    at the end of training; ``result.json`` has them too. Parameters that were initially zero count
    if they changed. ``balance_unchanged_weights.npz`` contains the fraction that is exactly as it
    was, and ``balance_change_weights_median.npz`` and so on the distribution of the change:
    relative to :math:`|\theta_0|` for weights, absolute for attention parameters, which may start
    at zero.

    Args:
        stack: Name of the stack in the LightningModule: a module with ``layers``, ``links()`` and
            ``why_no_law()``.
        every_n_steps: Steps from one measurement to the next.
        every_n_epochs: Epochs between measurements, instead of steps. If neither is given, every
            step is measured. The first step is always measured, and so is the last, unless training
            stops early.
        neurons: Keep every neuron's values too, in ``measures/balance_c.npz`` and
            ``balance_delta.npz``.
        changed: Epsilon, the least relative change that counts.

    Raises:
        ValueError: A number of steps or epochs is not positive, both are given, or epsilon is
            negative.
        MisconfigurationException: There is no such stack, it does not know its neurons, the
            strategy splits layers over processes, or the training has another Balancedness.
    """

    @in_range
    def __init__(
        self,
        stack: str = "stack",
        every_n_steps: Count | None = None,
        every_n_epochs: Count | None = None,
        neurons: bool = False,
        changed: NonNegative = 0.05,
    ) -> None:
        super().__init__(every_n_steps, every_n_epochs, stack=stack)
        self.measure_log = MeasureLog((*LAWS, *NORMS, SHARE))
        self.stack = stack
        self.neurons = neurons
        self.changed = changed
        self.neuron_log = MeasureLog(NEURONS)
        # The initial parameters, in checkpoints too: a resumed run compares with the original's.
        self._before: list[Tensor] | None = None
        # The matrices of each layer, and the attention parameters of each.
        self._kinds: Sequence[list[Sequence[Tensor]]] = ([], [])

    def _open(
        self, trainer: L.Trainer, pl_module: L.LightningModule, found: dict[str, nn.Module]
    ) -> None:
        stack: Any = found.get(self.stack)  # a pattern may match several
        if not all(hasattr(stack, part) for part in ("layers", "links", "why_no_law")):
            raise MisconfigurationException(
                f"Balancedness measures one stack, and {self.stack!r} names none: name a module "
                "that has layers, links() and why_no_law(), as DeepGNN."
            )
        try:
            self._links: list[Link] = list(stack.links())
        except ValueError as error:
            raise MisconfigurationException(f"Balancedness: {error}") from error
        chains = [layer.weight_chain() for layer in stack.layers]
        self._kinds = [one.incoming for one in chains], [one.attention for one in chains]
        reason = stack.why_no_law() if self._links else "it has no neurons that can be rescaled"
        # A weight norm computes matrices anew in each pass: they have no gradient of their own.
        is_normed = any(getattr(part, "weight_norm", None) is not None for part in stack.modules())
        parameters = self._parameters()
        for link in self._links:
            parameters += [role.parameter for role in (*link.incoming, *link.outgoing)]
        if is_normed or not all(isinstance(each, nn.Parameter) for each in parameters):
            raise MisconfigurationException(
                f"Balancedness: no conservation law holds for {self.stack!r}: {reason}. Use it "
                "without a weight norm."
            )
        if reason:
            rank_zero_warn(
                f"Balancedness: delta may differ from zero in {self.stack!r}, and c may change: "
                f"{reason}."
            )
        layers = [link.states[0] for link in self._links]
        # From layer 0 if the input neurons of the first layer can be rescaled.
        self.measure_log.open(range(min([1, *layers]), len(chains) + 1))
        self.neuron_log.open(layers)
        self._counts = [len(imbalance(link)) for link in self._links]  # of neurons

        self._passes = BackwardPasses(pl_module, [stack])
        self._passes.after = self._read
        self._scaler = scaler_of(trainer)

    def _parameters(self) -> list[Tensor]:
        # Shared layers have the same parameters, which are copied once.
        return list(dict.fromkeys(chain(*chain(*self._kinds))))

    def _changes(self) -> Tensor:
        before = dict(zip(self._parameters(), self._before or (), strict=False))
        return changes(self._kinds, before, self.changed)

    def findings(self) -> dict[str, Any]:
        """For ``result.json``: the fraction of each layer's parameters that changed; None where it
        has none."""
        shares: Any = self._changes()[[0, 8]].numpy().astype(object)
        if not shares.size:
            return {}
        shares[shares != shares] = None  # JSON has no NaN
        weights, attention = shares.tolist()
        found = {"by_more_than": self.changed, "weights": weights, "attention": attention}
        return {"changed": found}

    def state_dict(self) -> dict[str, Any]:
        return {
            "measure_log": self.measure_log.state_dict(),
            "neuron_log": self.neuron_log.state_dict(),
            "change": {"before": self._before},
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.measure_log.load_state_dict(state_dict["measure_log"])
        self.neuron_log.load_state_dict(state_dict["neuron_log"])
        self._before = state_dict["change"]["before"]

    def _begin(self, trainer: L.Trainer, is_first: bool) -> None:
        if not self._before:  # else a checkpoint has restored an earlier run's
            self._before = [parameter.detach().clone() for parameter in self._parameters()]
        if is_first:
            self._passes.clear()
        if self.is_due:
            self._passes.attach()

    def _read(self) -> None:
        """Read all values at the end of a backward pass, before gradients are clipped."""
        laws, norms = laws_of(self._links), norms_of([*chain(*self._kinds)])
        if self._scaler is not None:  # c and the norms of parameters do not depend on the loss
            scale = self._scaler.scale(torch.ones((), dtype=norms.dtype, device=norms.device))
            laws[1] /= scale.to(laws.dtype)
            norms[1] /= scale
        shape = (len(self.measure_log.measures), len(self.measure_log.layers))
        values = norms.new_full(shape, torch.nan)
        first = int(self.measure_log.layers[0])
        if self._links:
            of_laws = distribution(laws, self._counts).flatten(0, 1).to(values.dtype)
            shares = torch.stack([relative_imbalance(link) for link in self._links])
            places = torch.tensor([link.states[0] - first for link in self._links]).to(laws.device)
            values[: len(LAWS)].index_copy_(1, places, of_laws)
            values[-1].index_copy_(0, places, shares.to(values.dtype))
        # 0 / 0 would be NaN where a layer's attention starts at zero.
        of_parameters, of_gradients = norms
        relative = torch.where(of_gradients == 0, of_gradients, of_gradients / of_parameters)
        values[len(LAWS) : -1, 1 - first :] = relative.view(2, -1)
        self._read_last = values, laws

    def _measure(self, trainer: L.Trainer) -> None:
        if self._passes.of_loss:
            self._measured = self._read_last

    def _remove(self) -> None:
        self._passes.remove()

    def _record(self, trainer: L.Trainer, measured: tuple[Tensor, Tensor]) -> None:
        values, laws = measured
        self.measure_log.add(trainer, self._step, values)
        if self.neurons:  # half the size, and digits enough to draw
            self.neuron_log.add(trainer, self._step, laws.float())

    def _close(self, trainer: L.Trainer) -> None:
        super()._close(trainer)
        self.neuron_log.close(trainer)
        moved = self._changes()
        if moved.numel():
            log = MeasureLog(change_measures(self.changed))
            log.open(range(1, moved.shape[1] + 1))
            log.add(trainer, trainer.global_step, moved)
            log.close(trainer)
