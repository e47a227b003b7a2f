"""Record every call of a model's layers: the state that enters, and its gradient of the loss."""

import copy
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from gnn_depth.diagnostics.hooks import in_backward, keeps_graph, uncompiled
from gnn_depth.diagnostics.moments import RowMoments, sum_of_squares
from gnn_depth.diagnostics.passes import BackwardPasses
from gnn_depth.graph import Graph
from gnn_depth.torch_internals import is_traced

Statistics: TypeAlias = list[RowMoments | Tensor]
OfGradient: TypeAlias = Callable[[Tensor], Statistics]


class CallArguments:
    """The arguments of a layer's call, and which of them is the hidden state.

    The state is the first argument: a tensor, the first tensor in a tuple, or the ``x`` of a batch.
    A square first argument that needs no gradient, before another tensor with as many rows, is an
    adjacency matrix: the state is then the second. The order is that of the layer's signature,
    however keywords were written.

    Attributes:
        x: The state: a tensor, or sparse features with a method ``dense``; None if there is no
            floating-point tensor.
    """

    def __init__(
        self, module: nn.Module, args: Sequence[object], named: Mapping[str, object]
    ) -> None:
        self.module, self._args, self._named = module, tuple(args), dict(named)
        self._keyword = ""  # of the argument with the state, if it is not positional
        self._position = int(_is_adjacency(*args[:2]))
        if args:
            self._first = args[self._position]
        else:
            self._keyword = _first_keyword(module, named)
            self._first = named.get(self._keyword)
        self._place: int | None = None  # of the state, if the argument is a tuple
        state = self._first
        for place, item in enumerate(self._inside):
            if isinstance(item, Tensor):
                self._place, state = place, item
                break
        state = _of_batch(state)
        self.x: Any = None
        if _is_state(state) or hasattr(state, "dense"):
            self.x = state

    @property
    def _inside(self) -> list[object]:
        """The items of the state's argument if it is a tuple or a list, else none."""
        if isinstance(self._first, tuple | list):
            return list(self._first)
        return []

    @property
    def has_several_states(self) -> bool:
        """True for a pair of sources and targets, whose edges join different rows."""
        return sum(map(_is_state, self._inside)) > 1

    @property
    def others(self) -> list[object]:
        """All arguments, those inside a first tuple or batch too."""
        of_batch = [getattr(self._first, name, None) for name in ("edge_index", "graph")]
        return [*self._inside, *self._args, *self._named.values(), *of_batch]

    @property
    def graph(self) -> Graph | None:
        """The first of our graphs among the arguments."""
        for item in self.others:
            if isinstance(item, Graph):
                return item
        return None

    def kept(self) -> "CallArguments":
        """The same with a dense copy of the state: models write into their states, and reversible
        layers free them."""
        same = copy.copy(self)
        same.x = dense(self.x).clone()
        return same

    def call(self, x: Tensor) -> Tensor:
        """Call the layer again with another state; of several outputs, return the first."""
        first: Any = x
        if self._place is not None:
            items = self._inside
            items[self._place] = x
            first = tuple(items)
        elif _of_batch(self._first) is not self._first:
            first = copy.copy(self._first)
            first.x = x
        args, named = list(self._args), dict(self._named)
        if self._keyword:
            named[self._keyword] = first
        else:
            args[self._position] = first
        out: Any = first_output(self.module(*args, **named))
        return out

    @property
    def bound(self) -> float:
        """An upper bound of the layer's Lipschitz constant, given its other arguments; NaN if
        none is known."""
        bound = getattr(self.module, "lipschitz_bound", None)
        if bound is None:
            return math.nan
        named = dict(self._named)
        named.pop(self._keyword, None)
        found = bound(*self._args[1:], **named)
        if found is None:
            return math.nan
        return float(found)


def _of_batch(item: object) -> object:
    """The features of a batch, such as a ``Data``; anything else as it is."""
    x = getattr(item, "x", None)
    if _is_state(x) and not isinstance(item, Tensor):
        return x
    return item


def _is_adjacency(first: Any = None, second: Any = None) -> bool:
    """True if the first of two arguments is a dense or sparse adjacency matrix of the second's
    rows."""
    if not (_is_state(first) and _is_state(second)) or first.requires_grad:
        return False
    count = len(first)
    return first.shape == (count, count) and count == len(second) != second.shape[-1]


def _is_state(item: object) -> bool:
    return isinstance(item, Tensor) and item.is_floating_point()


def _first_keyword(module: nn.Module, named: Mapping[str, object]) -> str:
    """The keyword that comes first in a layer's signature; empty if it is not known."""
    try:
        in_order = list(inspect.signature(module.forward).parameters)
    except (TypeError, ValueError):  # compiled code has no signature
        in_order = []
    for name in in_order:
        if name in named:
            return name
    # A layer that takes **kwargs: with one state among them there is no doubt.
    states = [name for name, x in named.items() if _is_state(x)]
    return states[0] if len(states) == 1 else ""


def dense(x: Any) -> Tensor:
    """A state as a dense tensor outside autograd."""
    if isinstance(x, Tensor):
        return x.detach()
    found: Tensor = x.dense()
    return found


def first_output(out: object) -> object:
    """A layer's output; the first of them if it returns a tuple, and the features of a batch."""
    if isinstance(out, tuple | list) and out:
        return out[0]
    return _of_batch(out)


class StateGradient:
    """The gradients of one state: a vector, or its statistics, for each backward pass.

    Statistics are computed at once where no further pass can come, so that the vector is freed.
    """

    def __init__(self, x: Tensor, measure: OfGradient | None) -> None:
        self.shape, self.measure = x.shape, measure
        # A leaf is kept, so that no other tensor gets the id under which it is found again.
        self.leaf = x if x.is_leaf else None
        self.parts: dict[int, Any] = {}  # by the number of the backward pass


@dataclass(eq=False)
class Call:
    """One call of a layer.

    Attributes:
        module: The module whose input is the layer's hidden state.
        forward_pass: Number of the forward pass.
        state: The statistics of the state; None if no argument is a floating-point tensor.
        gradient: Its gradients; None if the state takes no part in autograd.
        without_autograd: True if autograd was switched off, as in re-entrant checkpoints.
        recorded: The layer's arguments, if these are kept.
        out_norm: Norm of the layer's output, if arguments are kept.
    """

    module: nn.Module
    forward_pass: int
    state: Statistics | None = None
    gradient: StateGradient | None = None
    without_autograd: bool = False
    recorded: CallArguments | None = None
    out_norm: float | None = None


class StateRecorder:
    """Records the states that enter some modules in a step, and their gradients of the loss.

    The gradient of a state is the total one, of the loss that is minimised: several backward passes
    through one state are added as vectors, and only those of the loss count
    (:class:`BackwardPasses`). Calls in the backward pass are ignored, as they only recompute a
    state, and so are calls in transforms of ``torch.func``.

    Args:
        root: The model.
        inputs: For each layer, the module whose input is its hidden state.
        layers: The layers.
        observe: Computes the statistics of a state, and returns a function that computes those of
            its gradient, or None to ignore it.
        keeps_calls: Keep the layers' arguments.
        training_only: Calls count only while the model is in training mode.

    Attributes:
        passes: The backward passes of this step.
        calls: The calls of this step, in order.
        in_transform: True if a layer was called in a transform.
        half: True if a gradient was float16.
        lost: True if a part of a gradient was not kept.
    """

    def __init__(
        self,
        root: nn.Module,
        inputs: Sequence[nn.Module],
        layers: Sequence[nn.Module],
        observe: Callable[[Tensor, CallArguments], tuple[Statistics, OfGradient | None]],
        keeps_calls: bool = False,
        training_only: bool = False,
    ) -> None:
        self._root, self._training_only = root, training_only
        self._inputs = set(inputs)
        # A block without hooks on its layer may compute both at once.
        self._layers = set(layers) if keeps_calls else set()
        self._layer_of = dict(zip(inputs, layers, strict=True))
        # A forward pass is the outermost call of one of these. The step of a LightningModule calls
        # a model inside it, not the module itself.
        self._roots = _around(root, self._inputs)
        self._observe = observe
        self.passes = BackwardPasses(root, layers)
        self._attached = ExitStack()
        self._leaf_hooks = ExitStack()  # of a step; those on other tensors are freed with them
        self.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        # A model that is copied or pickled takes its hooks along: those of a recorder of nothing.
        return StateRecorder, (nn.Module(), (), (), None)

    def clear(self) -> None:
        """Forget all calls, and begin a step."""
        self._leaf_hooks.close()
        self.passes.clear()
        # New objects: an autograd graph that is kept beyond its step adds to those of that step.
        self.calls: list[Call] = []
        self.in_transform = self.half = self.lost = False
        self._leaves: dict[tuple[nn.Module, int], StateGradient] = {}
        self._open: dict[nn.Module, Call] = {}  # the call of each layer that is not over
        self._forward_passes = self._depth = 0  # so far, and calls of roots that are open
        self._is_over = True  # the outermost call has ended
        self._backwards = 0  # backward passes before this forward pass

    def attach(self) -> None:
        """Look at all calls until :meth:`remove`.

        Compiled models then run uncompiled, as a compiled graph would skip hooks, or break at them.
        """
        self.remove()
        self.passes.attach()
        for module in self._inputs | self._layers | self._roots:
            handle = module.register_forward_pre_hook(self._enter, with_kwargs=True)
            self._attached.callback(handle.remove)
            if module in self._roots or module in self._layers:
                handle = module.register_forward_hook(self._leave, always_call=True)
                self._attached.callback(handle.remove)
        self._attached.enter_context(uncompiled())

    def remove(self) -> None:
        """Remove all hooks."""
        self.passes.remove()
        self._attached.close()
        self._leaf_hooks.close()

    # The forward pass

    def _enter(self, module: nn.Module, args: tuple[object, ...], named: dict[str, object]) -> None:
        is_measured = module in self._inputs or module in self._layers
        if not is_measured and module not in self._roots:  # of a copy
            return
        if self.passes.is_paused or in_backward():
            return
        if self._training_only and not self._root.training:
            return
        if is_traced():  # tensors of a transform must not outlive it
            self.in_transform |= is_measured
            return
        self.passes.forget_failed()
        if module in self._roots:
            if self._depth == 0:
                self._begin_pass(args)
            self._depth += 1
        if is_measured:
            # A loop written by hand calls the layers of a ModuleList, whose forward never runs:
            # only a backward pass ends its forward pass.
            is_over = self._is_over or self.passes.started > self._backwards
            if is_over and self._depth == 0:
                self._begin_pass(())
            self._record(module, CallArguments(module, args, named))

    def _leave(self, module: nn.Module, args: object, out: object) -> None:
        if in_backward():
            return
        if module in self._roots and self._depth:
            self._depth -= 1
            self._is_over = self._is_over or self._depth == 0
            self.passes.notice_new()
        if module not in self._layers or self.passes.is_paused:
            return
        call = self._open.pop(module, None)
        first = first_output(out)
        if call is not None and call.recorded is not None and isinstance(first, Tensor):
            call.out_norm = sum_of_squares(first.detach()).sqrt().item()

    def _begin_pass(self, args: tuple[object, ...]) -> None:
        self._forward_passes += 1
        self._is_over = False
        self._backwards = self.passes.started
        # An input that is optimised, as adversarial examples are, makes a pass one of the loss.
        for x in args:
            if isinstance(x, Tensor) and x.is_leaf and x.requires_grad:
                self._leaf_hooks.callback(self.passes.notice(x).remove)

    def _record(self, module: nn.Module, arguments: CallArguments) -> None:
        x = arguments.x
        if module in self._inputs:
            call = Call(module, self._forward_passes)
            self.calls.append(call)
            self._open[self._layer_of[module]] = call
            if x is not None:
                self._measure(call, x, arguments)
        if module in self._layers and x is not None:
            # The call of its block, which is noted already, or the one noted above.
            of_layer = self._open.get(module)
            if of_layer is not None and of_layer.recorded is None:
                of_layer.recorded = arguments.kept()

    def _measure(self, call: Call, x: Any, arguments: CallArguments) -> None:
        call.state, measure = self._observe(dense(x), arguments)
        if not isinstance(x, Tensor) or not x.requires_grad:
            call.without_autograd = not torch.is_grad_enabled()
            return
        known = self._leaves.get((call.module, id(x)))
        if known is not None:  # one tensor that enters again has one gradient
            call.gradient = known
            return
        call.gradient = StateGradient(x, measure)
        handle = x.register_hook(partial(self._receive, call.gradient))  # type: ignore[no-untyped-call]
        if x.is_leaf:  # other tensors are freed with their hooks
            self._leaves[call.module, id(x)] = call.gradient
            self._leaf_hooks.callback(handle.remove)

    # The backward pass

    def _receive(self, gradient: StateGradient, value: Tensor) -> None:
        self.passes.notice_new()
        number = self.passes.current()
        if gradient.measure is None:  # that it came says which forward passes are the loss's
            gradient.parts[number] = None
            return
        value = value.detach()  # with create_graph it needs a gradient
        self.half |= value.dtype is torch.float16
        # Only a graph that is kept can be passed again. Leaves collect from several graphs.
        if keeps_graph() or gradient.leaf is not None or gradient.parts:
            gradient.parts[number] = value
        else:
            gradient.parts[number] = gradient.measure(value)

    # Results

    def reached(self) -> set[int]:
        """The forward passes to which the loss's gradient has come."""
        found = set()
        for call in self.calls:
            if call.gradient is not None and self.passes.those_that_count(call.gradient.parts):
                found.add(call.forward_pass)
        return found

    def counted(self) -> list[list[Call]]:
        """The calls of each forward pass of the loss.

        A pass that the loss's gradient left out, while it reached others, is not one of them.
        """
        reached = self.reached()
        of_passes: dict[int, list[Call]] = {}
        for call in self.calls:
            of_passes.setdefault(call.forward_pass, []).append(call)
        found = []
        for number, calls in of_passes.items():
            gradients = [call.gradient for call in calls if call.gradient is not None]
            left_out = any(self.passes.superseded & one.parts.keys() for one in gradients)
            if reached and not left_out:
                # A pass in which no state needs a gradient, as behind frozen layers, counts.
                left_out = bool(gradients) or all(call.without_autograd for call in calls)
            if number in reached or not left_out:
                found.append(calls)
        return found

    @property
    def had_loss(self) -> bool:
        """True if there was a backward pass of the loss."""
        return bool(self.passes.of_loss or self.reached())

    def total(self, gradient: StateGradient, device: torch.device | str) -> Statistics:
        """The statistics of a state's gradient, the sum over all backward passes of the loss; NaN
        if a part is not kept."""
        assert gradient.measure is not None
        parts = self.passes.those_that_count(gradient.parts)
        if not parts:  # the loss does not depend on the state
            parts = [torch.zeros(gradient.shape, device=device)]
        if all(isinstance(part, Tensor) for part in parts):
            return gradient.measure(sum(parts))
        if len(parts) == 1:
            return parts[0]
        # The statistics of a sum do not follow from those of its terms.
        self.lost = True
        return gradient.measure(torch.full(gradient.shape, torch.nan, device=device))


def _around(root: nn.Module, layers: set[nn.Module]) -> set[nn.Module]:
    """The model and every submodule that contains all measured layers."""
    found = {root}
    inner: nn.Module | None = root
    while inner is not None:
        children, inner = list(inner.children()), None
        for child in children:
            if child not in layers and layers and layers <= set(child.modules()):
                found.add(child)
                inner = child
    return found


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the context; afterwards each submodule's mode and the random states
    are as before."""
    modes = {part: part.training for part in module.modules()}
    device = next(module.parameters(), torch.empty(0)).device
    # By default all devices are forked, and warned about where there are many.
    forked = [device] if device.type == "cuda" else []
    try:
        with torch.random.fork_rng(forked):
            module.eval()
            yield
    finally:
        for part, training in modes.items():
            part.training = training
