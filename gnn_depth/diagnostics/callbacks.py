"""Callbacks that measure every layer's input during training, and its gradient."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import lightning as L
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor, nn
from torch.optim import Optimizer

from gnn_depth.diagnostics.driver import LayerDriver
from gnn_depth.diagnostics.hooks import layer_numbers, layers_of
from gnn_depth.diagnostics.layer_statistics import Processes, measures_called
from gnn_depth.diagnostics.log import MeasureLog
from gnn_depth.measurements import frame
from gnn_depth.ranges import Count, in_range

if TYPE_CHECKING:
    import pandas as pd


def scaler_of(trainer: L.Trainer) -> Any:
    """The ``GradScaler`` of mixed precision, if there is one."""
    return getattr(trainer.precision_plugin, "scaler", None)


class StepCallback(L.Callback):
    """The base of callbacks that measure modules of a LightningModule in some steps, once all
    gradients are complete and not yet clipped, and keep the values in a log.

    These are every n-th step, or the first step of every n-th epoch, the first step of training,
    and the step at which ``max_steps`` or ``max_epochs`` ends it. Optimizers with a line search
    evaluate the loss several times in a step: the last evaluation counts.

    Args:
        every_n_steps: Steps from one measurement to the next.
        every_n_epochs: Epochs between measurements, instead of steps.
        **option: The option with the names of the modules: ``layers="stack.blocks.*.layer"``.

    Attributes:
        measure_log: The log that takes the values, of a subclass: a :class:`MeasureLog`, or one
            with the same methods.
        is_due: True in a step that is measured: it is not replayed from a recording.

    Raises:
        ValueError: Both intervals are given.
    """

    measure_log: Any
    #: Runs that differ in such callbacks alone learn the same, so tables may average them.
    only_measures = True
    # Begin a training in which the modules found by name are measured.
    _open: Callable[[L.Trainer, L.LightningModule, dict[str, nn.Module]], None]
    # Look at a batch, which may be the first of its step.
    _begin: Callable[[L.Trainer, bool], None]
    # Read the gradients of parameters, which are complete and not yet clipped.
    _read: Callable[[], None]
    # Keep in _measured what was measured in a step that had a loss; a later evaluation of the same
    # step replaces an earlier one. Gradients of parameters may be clipped by now.
    _measure: Callable[[L.Trainer], None]
    # Remove all hooks.
    _remove: Callable[[], None]
    # Log what was measured.
    _record: Callable[[L.Trainer, Any], None]

    def __init__(
        self, every_n_steps: int | None = None, every_n_epochs: int | None = None, **option: str
    ) -> None:
        if every_n_steps and every_n_epochs:
            raise ValueError(
                f"use every_n_steps ({every_n_steps}) or every_n_epochs ({every_n_epochs}), not "
                "both."
            )
        self.every_n_steps = every_n_steps
        self.every_n_epochs = every_n_epochs
        self._option = option
        self.is_due = False
        self._measured: Any = None  # waits for the end of the step

    @property
    def state_key(self) -> str:
        return self._generate_state_key(**self._option)

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        self._step, self.is_due = -1, False  # the current step, and if it is one to measure
        name = type(self).__name__
        # Refused before the first batch, as each of these would otherwise show as wrong numbers.
        patterns = []
        for other in trainer.callbacks:  # type: ignore[attr-defined]
            if type(other) is type(self):
                patterns.append(repr(*other._option.values()))
        if len(patterns) > 1:
            raise MisconfigurationException(
                f"{len(patterns)} {name} callbacks in one training, for {' and '.join(patterns)}, "
                "would write the same files: use one, with a pattern that matches all names."
            )
        # Others may split layers over processes; those of pytorch_lightning are other classes.
        if not isinstance(trainer.strategy, SingleDeviceStrategy | DDPStrategy):
            strategy = type(trainer.strategy)
            raise MisconfigurationException(
                f"{name} needs whole layers, so a Trainer of lightning.pytorch with strategy auto "
                f"or ddp, not {strategy.__module__}.{strategy.__name__}."
            )
        try:
            found = layers_of(pl_module, *self._option.values())
        except ValueError as error:
            raise MisconfigurationException(str(error)) from None
        self._open(trainer, pl_module, found)

    def _close(self, trainer: L.Trainer) -> None:
        """Pass on all values that were measured."""
        self.measure_log.close(trainer)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._close(trainer)

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        try:
            self._close(trainer)
        except Exception as error:  # only a warning, so that the exception is shown
            rank_zero_warn(f"the last values of {type(self).__name__} could not be saved: {error}")

    def state_dict(self) -> dict[str, Any]:
        return self.measure_log.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.measure_log.load_state_dict(state_dict)

    def frame(self) -> "pd.DataFrame":
        """The values measured so far, in long form: columns ``step``, ``layer``, ``measure``,
        ``value``."""
        return frame(self.measure_log.measurements())

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._last_step = trainer.estimated_stepping_batches - 1

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        is_first = trainer.global_step != self._step  # accumulated batches are one step
        if is_first:
            self._step = trainer.global_step
            if self.every_n_epochs:
                begins_epoch = batch_idx < trainer.accumulate_grad_batches
                regular = begins_epoch and trainer.current_epoch % self.every_n_epochs == 0
            else:
                regular = self._step % (self.every_n_steps or 1) == 0
            self.is_due = regular or self._step in (0, self._last_step)
        self._begin(trainer, is_first)

    def on_after_backward(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # Some strategies average the gradients of processes only now.
        if trainer.world_size > 1 and self.is_due and trainer.global_step == self._step:
            self._read()

    def on_before_optimizer_step(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> None:
        # Of several optimizers the first one belongs to this step: each of them counts as one.
        if self.is_due and trainer.global_step == self._step:
            self._measure(trainer)

    def on_train_batch_end(self, trainer: L.Trainer, *_: object) -> None:
        if trainer.global_step != self._step:
            self.is_due = False
        self._remove()
        measured, self._measured = self._measured, None
        if measured is not None:
            self._record(trainer, measured)


class LayerCallback(StepCallback):
    """The base of callbacks that measure every layer's input, or its gradient, in the scheduled
    steps.

    Hooks are attached in these steps only, in which our layers run uncompiled. No hook waits for
    another process: the processes exchange their results once all gradients of a step are complete,
    before clipping.

    The gradients are those of the loss that the optimizer minimises, without the loss scale of
    mixed precision. The accumulated batches of a step count as parts of one batch, and so do the
    batches of all processes, each with its share of the mean loss. If all processes have the same
    batch (a loader whose attribute ``shared`` is true), a measure is the root mean square over the
    processes, whose dropout may differ.

    Loggers show a measure by its tag in :data:`MEASURES`, such as
    ``gradient_norm/hidden_log10/layer_007``, and ``measures/gradient_norm_hidden.npz`` in the run's
    folder has all layers.

    Args:
        layers: Names of the layers in the LightningModule; ``*`` matches any characters but a dot.
            In a module without a ``NodeClassifier``'s stack the default is its outermost
            message-passing layers, ours and PyTorch Geometric's.
        every_n_steps: Steps from one measurement to the next.
        every_n_epochs: Epochs between measurements, instead of steps. If neither is given, every
            step is measured. The first step is always measured, and so is the last, unless training
            stops early.

    Raises:
        ValueError: A number is not positive, or both are given.
        MisconfigurationException: No module has such a name, the strategy splits layers over
            processes, or the training has another callback of this class.
    """

    measures: Sequence[str] | None = None  # what the log has, unless a subclass has its own log

    @in_range
    def __init__(
        self,
        layers: str = "stack.blocks.*.layer",
        every_n_steps: Count | None = None,
        every_n_epochs: Count | None = None,
    ) -> None:
        super().__init__(every_n_steps, every_n_epochs, layers=layers)
        if self.measures is not None:
            self.measure_log = MeasureLog(measures_called(self.measures))
        self.layers = layers
        self._driver: LayerDriver = None  # type: ignore[assignment]  # there is one in a training

    def _open(
        self, trainer: L.Trainer, pl_module: L.LightningModule, found: dict[str, nn.Module]
    ) -> None:
        layers, measures = layer_numbers(found), self.measure_log.measures
        if len(layers) == 1 and all(measure.between for measure in measures):
            raise MisconfigurationException(
                f"{type(self).__name__} compares each layer with the next, and only one is called "
                f"{self.layers!r}: take a pattern that matches several, or GradientSimilarity."
            )
        processes = Processes(trainer.world_size, device=trainer.strategy.root_device)
        self._driver = LayerDriver(
            pl_module, found, measures, processes=processes, scaler=scaler_of(trainer)
        )
        self._notes: set[str] = set()
        self.measure_log.open(layers)

    def _begin(self, trainer: L.Trainer, is_first: bool) -> None:
        if is_first:
            # Known only now: the loader is made after setup.
            self._driver.processes.shared = getattr(trainer.train_dataloader, "shared", False)
            self._driver.begin_step(f"in step {self._step}")
        if self.is_due:
            self._driver.attach()

    def _read(self) -> None:
        self._driver.end_backward()

    def _measure(self, trainer: L.Trainer) -> None:
        if not self._driver.recorder.had_loss:
            return
        if self._measured is None:  # a line search moves the parameters between evaluations
            self._driver.keep_parameters()
        self._measured = self._driver.end_step()

    def _remove(self) -> None:
        self._driver.remove()

    def _record(self, trainer: L.Trainer, values: Tensor) -> None:
        self._driver.add_updates(values)
        for kind, text in self._driver.notes.items():
            if kind not in self._notes:  # each kind once
                self._notes.add(kind)
                rank_zero_warn(f"{type(self).__name__}: {text}")
        self.measure_log.add(trainer, self._step, values)
        self._driver.begin_step()  # nothing of this step is kept

    def _close(self, trainer: L.Trainer) -> None:
        if self._driver is not None:
            self._driver.close()
        self._driver = None  # type: ignore[assignment]  # nothing of the model is kept
        super()._close(trainer)


class GradientNorms(LayerCallback):
    r"""Norms of the gradients of hidden states and of parameters, in every layer of any
    LightningModule.

    .. math:: \|G^l\|_F, \; G^l = \partial \mathrm{loss} / \partial X^l, \qquad
        \|\partial \mathrm{loss} / \partial W^l\|_2

    where :math:`X^l` is the input of layer l (its first argument; in our stacks before dropout).
    Its gradient is the total one, through skip connections too. The norm of parameters is over all
    parameters of layer l together. Dasoulas, Scaman & Virmaux, *Lipschitz Normalization for
    Self-Attention Layers*, ICML 2021, show these norms for 25 layers.

    Squared norms are summed over accumulated batches and over processes. A norm is zero if the loss
    does not depend on the state, and NaN if the state has no gradient or the layer has no
    parameters.
    """

    measures = ("gradient_norm_hidden", "gradient_norm_parameters")


class GradientSimilarity(LayerCallback):
    r"""The similarity mu of the nodes' gradients in every layer, absolute and relative to their
    norm.

    .. math::
        \mu(G^l) = \Big\| G^l - \tfrac1N 1 1^T G^l \Big\|_F, \quad
        \frac{\mu(G^l)}{\|G^l\|_F}, \qquad
        G^l = \partial \mathrm{loss} / \partial X^l

    where :math:`X^l` is the input of layer l of any LightningModule (its first argument; in our
    stacks before dropout). The gradient is the total one, through skip connections too. Park & Kim,
    *Taming Gradient Oversmoothing and Expansion in Graph Neural Networks*, 2024: mu falls with
    depth if gradients smooth out, and grows if they expand. The relative mu falls only if they
    smooth out, whatever their size.

    If the loss does not depend on a state, mu is zero and the relative mu NaN. Both are NaN if a
    layer's input has no gradient.
    """

    measures = ("gradient_similarity", "gradient_similarity_relative")


class GradientExpansion(LayerCallback):
    r"""The growth factor of the gradients' similarity mu through each layer, and from each layer to
    the last.

    .. math:: \frac{\mu(G^l)}{\mu(G^{l+1})}, \quad \frac{\mu(G^l)}{\mu(G^L)} = \prod_{k=l}^{L-1}
        \frac{\mu(G^k)}{\mu(G^{k+1})}, \qquad \mu(G) = \Big\| G - \tfrac1N 1 1^T G \Big\|_F

    for the gradients :math:`G^l` of :class:`GradientSimilarity`, in all layers but the last.
    Gradients expand in the backward pass if the factor is above one, and smooth out if it is below.
    Park & Kim, *Taming Gradient Oversmoothing and Expansion in Graph Neural Networks*, 2024: a
    residual layer multiplies them by up to 1 + ||W||.

    It is NaN if one of the two layers has no gradient, or if both mu are zero. L is the last layer
    with a gradient.
    """

    measures = ("gradient_growth", "gradient_expansion")


class RepresentationSimilarity(LayerCallback):
    r"""The similarity mu of the nodes' hidden states in every layer, absolute and relative to their
    norm.

    .. math:: \mu(X^l) = \Big\| X^l - \tfrac1N 1 1^T X^l \Big\|_F, \quad \frac{\mu(X^l)}{\|X^l\|_F}

    for :math:`X^l`, the first argument of layer l of any LightningModule (in our stacks before
    dropout), in the forward passes of the training. Park & Kim, *Taming Gradient Oversmoothing and
    Expansion in Graph Neural Networks*, 2024, show it beside that of the gradients. Both fall with
    depth where representations smooth out; only mu falls where they vanish.

    NaN where a layer is not called with a floating-point tensor; the share is NaN where all entries
    are zero.
    """

    measures = ("representation_similarity", "representation_similarity_relative")


class Projection(LayerCallback):
    r"""The distance of every layer's input, and of its gradient, from the limit of the layer's
    repeated propagation, over their norm.

    See :func:`gnn_depth.diagnostics.measures.projection`. It falls with depth where propagation
    smooths features, whatever the layer; mu does so only where the limit is equal rows. The limits
    are what the layer declares (``limits`` of :class:`gnn_depth.nn.parts.Layer`), those of
    attention backwards and of directed graphs are found by a power iteration. NaN, with a note,
    where a limit is not known, and on a graph that is divided among processes.
    """

    measures = ("projection", "gradient_projection")


class DirichletEnergy(LayerCallback):
    r"""The Dirichlet energy of every layer's input: the squared difference between neighbours.

    .. math:: E(X^l) = \frac1N \sum_i \sum_{j \in N_i} \|x^l_i - x^l_j\|^2

    See :func:`gnn_depth.diagnostics.measures.dirichlet_energy` and Rusch, Bronstein & Mishra, *A
    Survey on Oversmoothing in Graph Neural Networks*, 2023. The edges are those that the layer is
    called with: a graph, an ``edge_index``, or a sparse adjacency matrix; without these the energy
    is NaN. Several batches and processes count as one disconnected graph: their sums over edges are
    added, and so are their numbers of nodes.
    """

    measures = ("dirichlet_energy",)


class MeanAverageDistance(LayerCallback):
    r"""MAD of every layer's input: the mean cosine distance of a node to its neighbours, averaged
    over the nodes.

    See :func:`gnn_depth.diagnostics.measures.mean_average_distance` and Chen, Lin, Li, Li, Zhou &
    Sun, *Measuring and Relieving the Over-smoothing Problem for Graph Neural Networks from the
    Topological View*, AAAI 2020. The edges are those that the layer is called with, as for
    :class:`DirichletEnergy`. Over several batches and processes, MAD is the average over all their
    nodes.
    """

    measures = ("mean_average_distance",)


class EffectiveRank(LayerCallback):
    r"""The effective and the numerical rank of every layer's input: the number of directions that
    the nodes fill.

    .. math:: \exp \Big( -\sum_k p_k \log p_k \Big), \; p_k = \sigma_k \Big/ \sum_j \sigma_j, \qquad
        \|X^l\|_F^2 / \|X^l\|_2^2

    for the singular values :math:`\sigma` of :math:`X^l`: see
    :func:`gnn_depth.diagnostics.measures.effective_rank` and
    :func:`~gnn_depth.diagnostics.measures.numerical_rank`. Of several batches and processes they
    are the ranks of all rows together. A QR decomposition for each layer takes longer than the
    other measures: use ``every_n_steps``.
    """

    measures = ("effective_rank", "numerical_rank")


class LayerMeasures(LayerCallback):
    """Any measures of every layer, by name, from one set of hooks.

    Args:
        measures: Names of :data:`gnn_depth.diagnostics.MEASURES`.
        layers: Names of the layers in the LightningModule; ``*`` matches any characters but a dot.
            In a module without a ``NodeClassifier``'s stack the default is its outermost
            message-passing layers, ours and PyTorch Geometric's.
        **common: ``every_n_steps`` and ``every_n_epochs``, as in every such callback.

    Raises:
        ValueError: There is no such measure.
    """

    def __init__(
        self, measures: list[str], layers: str = "stack.blocks.*.layer", **common: Any
    ) -> None:
        self.measures = measures
        super().__init__(layers, **common)
