"""Record the steps of a full batch once as CUDA graphs, and replay them.

A GPU computes a step of a small graph in a fraction of the time that Python needs to start its
kernels. Every step of a full batch starts the same kernels, so they are recorded once.
"""

import gc
import logging
import pickle
import random
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

import lightning as L
import numpy as np
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from gnn_depth import torch_internals
from gnn_depth.data.base import NodeBatch
from gnn_depth.training.lightning_internals import take_result, trains_on_full_batch

log = logging.getLogger(__name__)

# YAML reads an unquoted on or off as a boolean.
Record: TypeAlias = Literal["auto", "on", "off"] | bool

ORDINARY = 3  # steps before a recording, in which kernels are compiled and states are made
CHECKED = 50  # replays after which the host asks whether a loss was not finite
MOST = 5  # recordings of a training, if something changes in between
# Optimizers whose fused form skips a step where a flag on the device says so.
OPTIMIZERS = (Adam, AdamW, SGD)
# Hooks that are called within a step.
INSIDE = (
    "on_before_zero_grad",
    "on_before_backward",
    "on_after_backward",
    "on_before_optimizer_step",
)
# Further methods of a module that are called within a step.
METHODS = ("training_step", "backward", "optimizer_zero_grad", "configure_gradient_clipping")
PLAIN = (bool, int, float, str, type(None))

# Modules below are NodeClassifiers, whose file imports this one.


class Unrecordable(Exception):
    """A step cannot be recorded; the message says why."""


class CudaGraph:
    """A CUDA graph with memory of its own."""

    def __init__(self) -> None:
        self._graph = torch.cuda.CUDAGraph()

    def capture(self, step: Callable[[], None]) -> None:
        """Record the kernels that a step starts, without running them."""
        torch.cuda.synchronize()
        gc.collect()
        torch.cuda.empty_cache()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            self._graph.capture_begin()
            try:
                step()
            except Exception:
                with suppress(RuntimeError):  # it repeats that the recording failed
                    self._graph.capture_end()
                raise
            self._graph.capture_end()

    def replay(self) -> None:
        """Run the kernels."""
        self._graph.replay()


#: The recorder for each type of device.
GRAPHS: dict[str, Callable[[], Any]] = {"cuda": CudaGraph}


class _Recording:
    """A recorded computation on a batch, and the attributes, tensors and hooks of the model that it
    relies on."""

    def __init__(self, batch: NodeBatch, module: Any, options: Any = None) -> None:
        self.batch = batch
        self.options = options
        self.outputs: tuple[Tensor, ...] = ()
        self._graph = GRAPHS[module.device.type]()
        self._parameters = list(module.stack.parameters())
        self._places = self._now()
        #: What is called before or after a part, forward or backward.
        self.hooks: list[Any] = []
        # Holder, name, value and part of each attribute.
        self._attributes: list[tuple[dict[str, Any], str, Any, str]] = []
        for part, each in module.stack.named_modules():
            self.hooks += torch_internals.hooks_of(each)
            for holder in (vars(each), each._buffers, each._modules):
                for name, value in holder.items():
                    if isinstance(value, (*PLAIN, Tensor, nn.Module)):
                        self._attributes.append((holder, name, value, part))

    def _now(self) -> list[tuple[int, bool]]:
        return [(each.data_ptr(), each.requires_grad) for each in self._parameters]

    def _changed(self) -> str | None:
        """Name the first change, such as ``p of dropout``; None if there is none."""
        for holder, name, old, part in self._attributes:
            new = holder.get(name)
            if new is not old and (not isinstance(old, PLAIN) or new != old):
                return f"{name} of {part}"
        if self._now() != self._places:
            return "the parameters"
        return None

    def capture(self, step: Callable[[], None]) -> None:
        """Record it.

        Raises:
            Unrecordable: It draws random numbers on the CPU, or replaces an attribute.
        """
        drawn = _state_on_host()
        try:
            self._graph.capture(step)
            changed = self._changed()
        finally:
            for holder, name, value, _ in self._attributes:
                holder[name] = value
        if _state_on_host() != drawn:
            raise Unrecordable("a step draws random numbers on the CPU")
        if changed is not None:
            raise Unrecordable(f"a step replaces {changed}")

    def fits(self, batch: NodeBatch, options: Any = None) -> bool:
        """True if a replay equals an ordinary computation on this batch."""
        return self.batch is batch and self.options == options and self._changed() is None

    def replay(self) -> tuple[Tensor, ...]:
        """Replay, and return copies of the outputs."""
        self._graph.replay()
        return tuple(output.clone() for output in self.outputs)


class RecordedSteps(L.Callback):
    """Record a training's steps on one GPU, and replay them.

    A recording is all that Lightning does in a step: forward pass, loss, backward pass, clipping
    and the optimizer's step. Random numbers come from the same generator, so a replayed step equals
    an ordinary one. Steps that a callback measures (``is_due``), and steps of a model with hooks,
    are not replayed.

    After a loss that is not finite, the weights stay unchanged until the host checks.

    Args:
        choice: ``auto`` records where it can, and says why where it cannot; ``on`` refuses a
            training that cannot be recorded; ``off`` never records.
        base: The class whose step is recorded; a subclass's own step is not.
    """

    def __init__(self, choice: Record, base: type[L.LightningModule]) -> None:
        self.choice = choice
        self.base = base
        self.capturing: _Recording | None = None
        self._begin()

    def _begin(self) -> None:
        self.why_not: str | None = "no training has begun"
        self._rates: list[Tensor] = []
        self._ordinary = self._recorded = 0
        self._training: _Recording | None = None
        self._evaluation: _Recording | None = None
        # Whether a loss was not finite, how many were before, and the last loss up to it.
        self._flag = torch.zeros(3)
        self._replayed: list[tuple[int, int]] = []  # steps and batches since the flag was read

    # Hooks of Lightning

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        self._begin()
        device, optimizer = pl_module.device, trainer.optimizers[0]
        if device.type in GRAPHS and _is_fused(optimizer):
            for group in optimizer.param_groups:
                self._rates.append(torch.tensor(group["lr"], dtype=torch.float32, device=device))
        self._flag = self._flag.to(device)
        self.why_not = _refusal(trainer, pl_module, self.base)
        if self.choice in ("off", False):
            self.why_not = "record is off"
        elif self.why_not is not None:
            self._say(device)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: Any, batch: NodeBatch, batch_idx: int
    ) -> None:
        self._batch = batch

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: Any, *_: Any) -> None:
        self.check(pl_module)

    def on_train_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        self.check(pl_module)
        self._begin()  # gives the memory back

    # Training

    def train(self, module: Any, closure: Any, ordinary: Callable[[], None]) -> None:
        """Take a step: replay the recording, make one, or call ``ordinary``."""
        optimizer: Optimizer = module.trainer.optimizers[0]
        with self._rates_on_device(optimizer):
            if not self._may_record(module):
                self.check(module)
                ordinary()
                self._ordinary += 1
                return
            options = _options(optimizer)
            if self._training is None or not self._training.fits(self._batch, options):
                self._training = self._record(module, ordinary, options)
                if self._training is None:
                    ordinary()
                    return
            scores, loss = self._training.replay()
        self._replayed.append((module.global_step, module.trainer.fit_loop.total_batch_idx))
        take_result(closure, loss)
        module.count_step(self._batch, scores, loss)
        if len(self._replayed) == CHECKED:
            self.check(module)

    def keep(self, scores: Tensor, loss: Tensor) -> None:
        """Take the outputs of the step that is being recorded, and watch its loss."""
        assert self.capturing is not None
        self.capturing.outputs = scores.detach(), loss.detach()
        bad, good, last = self._flag
        last.copy_(torch.where(bad > 0, last, loss.detach()))
        bad.copy_(torch.maximum(bad, (~loss.detach().isfinite()).to(bad.dtype)))
        good.add_(1 - bad)

    def check(self, module: Any) -> None:
        """Check that the losses of the replayed steps are finite.

        Raises:
            Diverged: One is not; the message names its step and the first bad layer.
        """
        steps, self._replayed = self._replayed, []
        if not steps:
            return
        bad, good, loss = self._flag.tolist()
        self._flag.zero_()
        if not bad:
            return
        step, batch = steps[int(good)]
        module.epoch_log.forget(step)
        # The same dropout masks, so the same forward pass.
        module.seeded_steps.seed_batch(module.trainer, batch)
        module.diverged("training", loss, self._batch, step)

    # Evaluation

    def evaluate(self, module: Any, batch: NodeBatch, scores: Callable[[], Tensor]) -> Tensor:
        """The scores of an evaluation, replayed if training steps are."""
        if self._training is None or not self._may_record(module):
            return scores()
        if self._evaluation is None or not self._evaluation.fits(batch):
            recording = _Recording(batch, module)

            def compute() -> None:
                recording.outputs = (scores(),)

            self._evaluation = self._captured(module, recording, compute)
            if self._evaluation is None:
                return scores()
        return self._evaluation.replay()[0]

    # Recording

    def _may_record(self, module: Any) -> bool:
        if self.why_not is not None or self._ordinary < ORDINARY:
            return False
        callbacks: list[Any] = module.trainer.callbacks
        if any(getattr(callback, "is_due", False) for callback in callbacks):
            return False
        if self._training is not None:
            return not any(self._training.hooks)
        return not any(map(torch_internals.has_hooks, module.stack.modules()))

    def _record(self, module: Any, ordinary: Callable[[], None], options: Any) -> _Recording | None:
        optimizer: Any = module.trainer.optimizers[0]
        recording = self.capturing = _Recording(self._batch, module, options)
        optimizer.found_inf = self._flag[0]
        groups = [group for group in optimizer.param_groups if "capturable" in group]
        for group in groups:
            group["capturable"] = True
        try:
            return self._captured(module, recording, ordinary)
        finally:
            self.capturing = None
            del optimizer.found_inf
            for group in groups:
                group["capturable"] = False  # as fused optimizers have it

    def _captured(
        self, module: Any, recording: _Recording, step: Callable[[], None]
    ) -> _Recording | None:
        """The recording of a step; None, after a warning, if it fails."""
        self.check(module)
        self._recorded += 1
        try:
            if self._recorded > 2 * MOST:
                raise Unrecordable("the model or the optimizer's options change too often")
            recording.capture(step)
            return recording
        except Exception as error:
            self.why_not = f"{_place_of(error, module.stack)}{str(error).splitlines()[0]}"
        self._training = self._evaluation = None
        # What is left of the step belongs to the stream of the recording. The error, which is gone
        # only here, held it.
        gc.collect()
        torch_internals.end_failed_capture(module.device)
        module.seeded_steps.seed_batch(module.trainer)
        self._say(module.device)
        return None

    def _say(self, device: torch.device) -> None:
        if self.choice in ("on", True):
            raise MisconfigurationException(
                f"record on: {self.why_not}. Choose record auto or off."
            )
        if device.type in GRAPHS:
            rank_zero_only(log.warning)("steps are not recorded: %s", self.why_not)

    @contextmanager
    def _rates_on_device(self, optimizer: Optimizer) -> Iterator[None]:
        """Give the optimizer its learning rates as tensors, which a recording reads in each step.

        In ordinary steps too: a tensor rounds a rate to float32.
        """
        groups = optimizer.param_groups[: len(self._rates)]
        given = [group["lr"] for group in groups]
        for group, rate in zip(groups, self._rates, strict=True):
            rate.fill_(group["lr"])
            group["lr"] = rate
        try:
            yield
        finally:
            for group, rate in zip(groups, given, strict=True):
                group["lr"] = rate


def _refusal(trainer: L.Trainer, module: Any, base: type[L.LightningModule]) -> str | None:
    """Why a training cannot be recorded; None if no reason is known in advance."""
    device, optimizer = module.device, trainer.optimizers[0]
    if device.type not in GRAPHS:
        return f"the device is a {device.type}, and steps are recorded on CUDA devices"
    if trainer.world_size > 1:
        return "several processes train together"
    if not trains_on_full_batch(trainer):
        return "mini-batches change from step to step"
    if getattr(trainer.precision_plugin, "scaler", None) is not None:
        return "precision 16-mixed decides after each step whether to keep it"
    if not _is_fused(optimizer):
        names = ", ".join(each.__name__ for each in OPTIMIZERS)
        return f"only the fused forms of {names} are recorded"
    for name in (*INSIDE, *METHODS):
        if is_overridden(name, module, base):
            return f"{type(module).__name__} has its own {name}"
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if hasattr(callback, "is_due"):
            continue
        for name in INSIDE:
            if is_overridden(name, callback, L.Callback):
                return f"{type(callback).__name__} has {name} but no is_due"
    return None


def _is_fused(optimizer: Optimizer) -> bool:
    fused = all(group.get("fused") for group in optimizer.param_groups)
    return fused and type(optimizer) in OPTIMIZERS


def _options(optimizer: Optimizer) -> list[dict[str, Any]]:
    """The options and parameters of all groups, without learning rates."""
    found = []
    for group in optimizer.param_groups:
        found.append(group | {"lr": None, "params": list(map(id, group["params"]))})
    return found


def _state_on_host() -> bytes:
    """The state of all generators of random numbers on the CPU."""
    states = (torch.get_rng_state().numpy(), random.getstate(), np.random.get_state())
    return pickle.dumps(states)


def _place_of(error: Exception, stack: nn.Module) -> str:
    """Where an error arose, as the beginning of a message: the innermost part, and the line."""
    if isinstance(error, Unrecordable):
        return ""
    names = {part: name for name, part in stack.named_modules() if name}
    found = ""
    assert error.__traceback__ is not None
    # Without the caller's frame: f_locals would keep the error there.
    for frame, line in traceback.walk_tb(error.__traceback__.tb_next):
        part = frame.f_locals.get("self")
        if isinstance(part, nn.Module) and part in names:
            found = f"{names[part]} ({type(part).__name__}), "
        place = f"{Path(frame.f_code.co_filename).name}:{line}: "
    return found + place
