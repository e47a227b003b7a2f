"""The backward passes of a step: which of them are of the loss, and when the last of them ends."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils.hooks import RemovableHandle

from gnn_depth.diagnostics.hooks import at_end_of_backward, backward_number


class BackwardPasses:
    """The backward passes of a step.

    A pass is of the loss if it adds to the ``grad`` of a parameter, or of an input of the model;
    ``torch.autograd.grad`` does not. Once the gradients of the layers' parameters are reset, the
    passes before no longer count.

    Args:
        root: The model.
        layers: The layers.

    Attributes:
        started: Number of passes so far.
        of_loss: The passes of the loss, by number.
        superseded: Passes of the loss whose gradients were reset.
        after: Called once at the end of each pass of the loss: all gradients are then complete,
            also with ``DistributedDataParallel``, and not yet clipped.
    """

    # The only owner that notices calls and gradients, if there is one: a probe inside a watched
    # block runs the layers too, and its passes are not part of the training.
    _only: ClassVar[object] = None

    def __init__(self, root: nn.Module, layers: Sequence[nn.Module]) -> None:
        self._root, self._layers = root, layers
        self.after: Callable[[], None] | None = None
        self._trained: list[nn.Parameter] = []
        # Of the layers, and those that do not exist yet.
        self._witnesses = self._new = self._trained
        self._attached = ExitStack()
        self.clear()

    def clear(self) -> None:
        """Forget all passes, and begin a step."""
        self.started = 0
        self.of_loss: set[int] = set()
        self.superseded: set[int] = set()
        self._running: list[int] = []  # the innermost last
        # How often each gradient had been written when the last pass of the loss ended.
        self._versions: dict[Tensor, int] = {}

    def attach(self) -> None:
        """Notice all gradients of parameters until :meth:`remove`."""
        self._trained = [p for p in self._root.parameters() if p.requires_grad]
        of_layers = set(nn.ModuleList(self._layers).parameters())
        # Other parts of the model may have their gradients reset separately.
        self._witnesses = [p for p in self._trained if p in of_layers] or self._trained
        self._new = self._trained
        self.notice_new()

    def notice_new(self) -> None:
        """Notice the gradients of parameters that did not exist before: lazy modules make theirs in
        their first pass."""
        for parameter in self._new:
            if not is_lazy(parameter):
                self._attached.callback(self.notice(parameter).remove)
        self._new = list(filter(is_lazy, self._new))

    def remove(self) -> None:
        """Remove all hooks from the parameters."""
        self._attached.close()

    def notice(self, leaf: Tensor) -> RemovableHandle:
        """Count a pass that adds to a tensor's ``grad`` as one of the loss."""
        handle: RemovableHandle = leaf.register_post_accumulate_grad_hook(self._accumulated)  # type: ignore[no-untyped-call]
        return handle

    @staticmethod
    @contextmanager
    def only(owner: object) -> Iterator[None]:
        """Let a single object notice calls and gradients inside the context."""
        before, BackwardPasses._only = BackwardPasses._only, owner
        try:
            yield
        finally:
            BackwardPasses._only = before

    @property
    def is_paused(self) -> bool:
        """True if another object is the only one that notices calls and gradients."""
        return BackwardPasses._only is not None and BackwardPasses._only is not self

    def forget_failed(self) -> None:
        """Forget the pass that is running: a new forward pass shows that it has failed."""
        self._running.clear()

    def current(self) -> int:
        """The number of the pass that is running; from now on its end is noticed."""
        number = backward_number()
        if number not in self._running:
            self._running.append(number)
            self.started += 1
            at_end_of_backward(partial(self._end, number))
        return number

    def those_that_count(self, parts: Mapping[int, Any]) -> list[Any]:
        """The gradients in the passes of the loss, from those of all passes by number."""
        if not self._trained and not self.of_loss:  # nothing is trained: every pass counts
            return list(parts.values())
        return [part for number, part in parts.items() if number in self.of_loss]

    def _accumulated(self, leaf: Tensor) -> None:
        """A leaf has got its gradient: the pass, and the one around it, are of the loss."""
        if self.is_paused:
            return
        number = self.current()
        if self._running[0] not in self.of_loss:
            self._forget_reset(leaf)
        around = self._running.index(number)
        self.of_loss.update(self._running[: around + 1])

    def _end(self, number: int) -> None:
        if number in self._running:
            del self._running[self._running.index(number) :]
        # Only the outermost pass completes the gradients: checkpoints run passes inside it.
        if self._running or number not in self.of_loss:
            return
        self._versions = {p: p.grad._version for p in self._witnesses if p.grad is not None}
        if self.after is not None:
            self.after()

    def _forget_reset(self, leaf: Tensor) -> None:
        """Forget the passes before the gradients of the layers' parameters were set to zero.

        The leaf has got its gradient of the new pass already.
        """
        others = [parameter for parameter in self._versions if parameter is not leaf]
        if others and all(map(self._was_reset, others)):
            self.superseded |= self.of_loss
            self.of_loss.clear()
            self._versions = {}

    def _was_reset(self, parameter: Tensor) -> bool:
        gradient = parameter.grad
        if gradient is None:  # zero_grad(set_to_none=True), the default
            return True
        if gradient._version == self._versions[parameter]:
            return False
        values = gradient._values() if gradient.is_sparse else gradient
        return not bool(values.any())
