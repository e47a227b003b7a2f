"""Record every call of a model's layers: the state that enters, and its gradient of the loss.

All private parts of PyTorch that measuring needs are touched in this file.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from gnn_depth.diagnostics.hooks import uncompiled
from gnn_depth.diagnostics.moments import RowMoments, sum_of_squares
from gnn_depth.graph import Graph


def in_backward() -> bool:
    """True during a backward pass, in which layers are called only to recompute their states."""
    return torch._C._current_graph_task_id() != -1  # what torch.utils.checkpoint asks too


def in_transform() -> bool:
    """True inside a transform of ``torch.func`` or a trace, whose tensors must not outlive it."""
    if torch._C._functorch.peek_interpreter_stack() is not None:  # no public question for it
        return True
    return torch._C._get_tracing_state() is not None or torch.compiler.is_exporting()


class CallArguments:
    """The arguments of a layer's call, and which of them is the hidden state.

    The state is the first argument, or the first tensor in it if that is a tuple. The order is that
    of the layer's signature, however keywords were written.

    Attributes:
        x: The state: a tensor, or sparse features with a method ``dense``; None if the first
            argument has no floating-point tensor.
    """

    def __init__(
        self, module: nn.Module, args: Sequence[object], named: Mapping[str, object]
    ) -> None:
        self.module, self._args, self._named = module, tuple(args), dict(named)
        self._keyword = ""  # of the first argument, if it is not positional
        if args:
            self._first = args[0]
        else:
            self._keyword = _first_keyword(module, named)
            self._first = named.get(self._keyword)
        self._place: int | None = None  # of the state, if the first argument is a tuple
        self.x: Any = None
        state = self._first
        for place, item in enumerate(self._inside):
            if isinstance(item, Tensor):
                self._place, state = place, item
                break
        if _is_state(state) or (hasattr(state, "dense") and not isinstance(state, Tensor)):
            self.x = state

    @property
    def _inside(self) -> list[object]:
        """The items of the first argument if it is a tuple or a list, else none."""
        return list(self._first) if isinstance(self._first, tuple | list) else []

    @property
    def has_several_states(self) -> bool:
        """True for a pair of sources and targets, whose edges join different rows."""
        return sum(map(_is_state, self._inside)) > 1

    @property
    def others(self) -> list[object]:
        """All arguments, those inside a first tuple too."""
        return [*self._inside, *self._args, *self._named.values()]

    @property
    def graph(self) -> Graph | None:
        """The first of our graphs among the arguments."""
        for item in self.others:
            if isinstance(item, Graph):
                return item
        return None

    def without_state(self) -> tuple[tuple[object, ...], dict[str, object]]:
        """The positional and the keyword arguments but the first."""
        named = dict(self._named)
        named.pop(self._keyword, None)
        return self._args[1:], named

    def with_state(self, x: Tensor) -> tuple[tuple[object, ...], dict[str, object]]:
        """The positional and the keyword arguments with another state."""
        first: object = x
        if self._place is not None:
            items = self._inside
            items[self._place] = x
            first = tuple(items)
        if self._keyword:
            return (), self._named | {self._keyword: first}
        return (first, *self._args[1:]), self._named


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


def first_output(out: object) -> object:
    """A layer's output; the first of them if it returns a tuple."""
    return out[0] if isinstance(out, tuple | list) and out else out


class RecordedCall:
    """A call with its arguments, which can be repeated at another state.

    Attributes:
        x: The state, dense, as it was when the layer was called.
    """

    def __init__(self, arguments: CallArguments) -> None:
        self.arguments = arguments
        self.module = arguments.module
        x = arguments.x
        # A copy: models write into their states, and reversible layers free them.
        self.x: Tensor = x.detach().clone() if isinstance(x, Tensor) else x.dense()

    def __call__(self, x: Tensor) -> Tensor:
        """Call the layer again with another state; of a tuple of outputs, return the first."""
        args, named = self.arguments.with_state(x)
        out = first_output(self.module(*args, **named))
        if not isinstance(out, Tensor):
            raise TypeError(f"{type(self.module).__name__} returns no tensor")
        return out

    @property
    def bound(self) -> float | None:
        """The layer's upper bound of its Lipschitz constant for these arguments; None if it has
        none."""
        bound = getattr(self.module, "lipschitz_bound", None)
        if bound is None:
            return None
        args, named = self.arguments.without_state()
        found: float | None = bound(*args, **named)
        return found


class StateGradient:
    """The gradients of one state: a vector, or its statistics, for each backward pass.

    Statistics are computed at once where no further pass can come, so that the vector is freed.
    """

    def __init__(self, x: Tensor) -> None:
        self.shape = x.shape
        # A leaf is kept, so that no other tensor gets the id under which it is found again.
        self.leaf = x if x.is_leaf else None
        self.parts: dict[int, Any] = {}  # by the number of the backward pass


class Call:
    """One call of a layer.

    Attributes:
        module: The module whose input is the layer's hidden state.
        forward_pass: Number of the forward pass.
        x: The state itself, if arguments are kept.
        state: The statistics of the state; None if there is none.
        gradient: Its gradients; None if the state takes no part in autograd.
        without_autograd: True if autograd was switched off, as in re-entrant checkpoints.
        is_input: True if autograd does not differentiate by the state, as by an input.
        recorded: The layer's call with its arguments, if these are kept.
        out_norm: Norm of the layer's output, if arguments are kept.
    """

    def __init__(self, module: nn.Module, forward_pass: int) -> None:
        self.module, self.forward_pass = module, forward_pass
        self.x: Tensor | None = None
        self.state: list[RowMoments | Tensor] | None = None
        self.gradient: StateGradient | None = None
        self.without_autograd = self.is_input = False
        self.recorded: RecordedCall | None = None
        self.out_norm: float | None = None
        self.returns_several = False


class CallRecorder:
    """Records the calls of some modules in the forward passes of a step, and the gradients of its
    loss.

    The gradient of a state is the total one, of the loss that is minimised: several backward passes
    through one state are added as vectors. A backward pass is one of the loss if it adds to the
    ``grad`` of a parameter, or of an input of the model; ``torch.autograd.grad`` does not. Once the
    layers' gradients are reset, the passes before do not count. Calls in the backward pass are
    ignored, as they only recompute a state, and so are calls in transforms of ``torch.func``.

    Args:
        root: The model.
        inputs: For each layer, the module whose input is its hidden state.
        layers: The layers.
        of_state: Computes the statistics of a state; None to ignore states.
        of_gradient: Computes the statistics of a gradient; None to ignore gradients.
        keeps_calls: Keep the layers' arguments.
        training_only: Calls count only while the model is in training mode.

    Attributes:
        calls: The calls of this step, in order.
        unreadable: The modules that were called without a floating-point tensor.
        in_transform: True if a layer was called in a transform.
        half: True if a gradient was float16.
        after_backward: Called once at the end of each backward pass of the loss: all gradients are
            then complete, also with ``DistributedDataParallel``, and not yet clipped.
    """

    # The only one that sees calls and gradients, if there is one: a probe inside a watched block
    # runs the layers too, and its calls are no part of the training.
    _alone: ClassVar[object] = None

    def __init__(
        self,
        root: nn.Module,
        inputs: Sequence[nn.Module],
        layers: Sequence[nn.Module],
        of_state: Callable[[Tensor, CallArguments], list[RowMoments | Tensor]] | None = None,
        of_gradient: Callable[[Tensor], RowMoments] | None = None,
        keeps_calls: bool = False,
        training_only: bool = False,
    ) -> None:
        self._root, self._training_only = root, training_only
        self._inputs, self._layers = set(inputs), set(layers)
        self._layer_of = dict(zip(inputs, layers, strict=True))
        # A forward pass is the outermost call of one of these. The step of a LightningModule calls
        # a model inside it, not the module itself.
        self._roots = _around(root, self._inputs)
        self._of_state, self._of_gradient = of_state, of_gradient
        self._keeps_calls = keeps_calls
        self.after_backward: Callable[[], None] | None = None
        self._attached = ExitStack()
        self._leaf_hooks = ExitStack()  # of a step; those on other tensors are freed with them
        self._trained: list[nn.Parameter] = []
        self._witnesses: list[nn.Parameter] = []
        self.clear()

    def clear(self) -> None:
        """Forget all calls, and begin a step."""
        self._leaf_hooks.close()
        # New objects: an autograd graph that is kept beyond its step adds to those of that step.
        self.calls: list[Call] = []
        self.unreadable: set[nn.Module] = set()
        self.in_transform = self.half = False
        self._leaves: dict[tuple[nn.Module, int], StateGradient] = {}
        self._running: list[int] = []  # backward passes, the innermost last
        self._of_loss: set[int] = set()  # backward passes of the loss
        self._saw_backward = False
        self._superseded: set[int] = set()  # forward passes whose gradients were reset
        # How often each gradient had been written when the last pass of the loss ended.
        self._versions: dict[Tensor, int] = {}
        self._passes = self._depth = 0  # forward passes so far, and calls of roots that are open
        self._over = True  # the next call of a layer begins a forward pass

    # Hooks

    def attach(self) -> None:
        """Look at all calls until :meth:`remove`.

        Compiled models then run uncompiled, as a compiled graph would skip hooks, or break at them.
        """
        self.remove()
        self._trained = [p for p in self._root.parameters() if p.requires_grad]
        of_layers: set[nn.Parameter] = set()
        for layer in self._layers:
            of_layers.update(layer.parameters())
        # Whether gradients were reset shows in the layers' own: those of other parts of the model
        # may be reset by themselves.
        self._witnesses = [p for p in self._trained if p in of_layers] or self._trained
        for module in self._inputs | self._layers | self._roots:
            handle = module.register_forward_pre_hook(self._enter, with_kwargs=True)
            self._attached.callback(handle.remove)
            if module in self._roots or (self._keeps_calls and module in self._layers):
                handle = module.register_forward_hook(self._leave, always_call=True)
                self._attached.callback(handle.remove)
            # Looked up by copy and pickle, also on an instance: copies must not have our hooks.
            module.__dict__["__reduce_ex__"] = partial(_reduce_without_hooks, module)
        for parameter in self._trained:
            of_parameter = parameter.register_post_accumulate_grad_hook(self._accumulated)  # type: ignore[no-untyped-call]
            self._attached.callback(of_parameter.remove)
        self._attached.enter_context(uncompiled())

    def remove(self) -> None:
        """Remove all hooks."""
        self._attached.close()
        for module in self._inputs | self._layers | self._roots:
            if not any(map(_is_ours, module._forward_pre_hooks.values())):
                module.__dict__.pop("__reduce_ex__", None)
        self._leaf_hooks.close()

    @staticmethod
    @contextmanager
    def alone(recorder: object) -> Iterator[None]:
        """Let only one recorder see what happens inside the context; none for another object."""
        before, CallRecorder._alone = CallRecorder._alone, recorder
        try:
            yield
        finally:
            CallRecorder._alone = before

    @property
    def _is_paused(self) -> bool:
        return CallRecorder._alone is not None and CallRecorder._alone is not self

    # The forward pass

    def _enter(self, module: nn.Module, args: tuple[object, ...], named: dict[str, object]) -> None:
        is_measured = module in self._inputs or module in self._layers
        if not is_measured and module not in self._roots:  # a copy that shares its hooks
            return
        if self._is_paused or in_backward():
            return
        if self._training_only and not self._root.training:
            return
        if in_transform():
            self.in_transform |= is_measured
            return
        self._running.clear()  # a backward pass that failed does not end
        if module in self._roots:
            if self._depth == 0:
                self._begin_pass(args)
            self._depth += 1
        if is_measured:
            # A loop written by hand calls the layers of a ModuleList, whose forward never runs.
            if self._over and self._depth == 0:
                self._begin_pass(())
            self._record(module, CallArguments(module, args, named))

    def _leave(self, module: nn.Module, args: object, out: object) -> None:
        if module in self._roots and self._depth and not in_backward():
            self._depth -= 1
            self._over = self._over or self._depth == 0
        if not self._keeps_calls or module not in self._layers or self._is_paused or in_backward():
            return
        call = self._open_call(module)
        first = first_output(out)
        if call is not None and call.recorded is not None and isinstance(first, Tensor):
            call.returns_several = first is not out
            call.out_norm = sum_of_squares(first.detach()).sqrt().item()

    def _begin_pass(self, args: tuple[object, ...]) -> None:
        self._passes += 1
        self._over = False
        # An input that is optimised, as adversarial examples are, makes a pass one of the loss.
        for x in args:
            if isinstance(x, Tensor) and x.is_leaf and x.requires_grad:
                handle = x.register_post_accumulate_grad_hook(self._accumulated)  # type: ignore[no-untyped-call]
                self._leaf_hooks.callback(handle.remove)

    def _open_call(self, layer: nn.Module) -> Call | None:
        """The last call of a layer whose output is not known."""
        for call in reversed(self.calls):
            if self._layer_of[call.module] is layer and call.out_norm is None:
                return call
        return None

    def _record(self, module: nn.Module, arguments: CallArguments) -> None:
        x = arguments.x
        if module in self._inputs:
            call = Call(module, self._passes)
            self.calls.append(call)
            if x is None:
                self.unreadable.add(module)
            else:
                self._measure(call, x, arguments)
        if self._keeps_calls and module in self._layers and x is not None:
            # The call of its block, which is noted already, or the one noted above.
            of_layer = self._open_call(module)
            if of_layer is not None and of_layer.recorded is None:
                of_layer.recorded = RecordedCall(arguments)

    def _measure(self, call: Call, x: Any, arguments: CallArguments) -> None:
        if self._of_state is not None or self._keeps_calls:
            state = x.detach() if isinstance(x, Tensor) else x.dense()
            if self._of_state is not None:
                call.state = self._of_state(state, arguments)
            if self._keeps_calls:
                call.x = state
        if not isinstance(x, Tensor) or not x.requires_grad:
            # Two reasons, of which notes tell the one that holds.
            call.without_autograd = not torch.is_grad_enabled()
            call.is_input = torch.is_grad_enabled()
            return
        known = self._leaves.get((call.module, id(x)))
        if known is not None:  # one tensor that enters again has one gradient
            call.gradient = known
            return
        call.gradient = StateGradient(x)
        handle = x.register_hook(partial(self._receive, call.gradient))  # type: ignore[no-untyped-call]
        if x.is_leaf:  # other tensors are freed with their hooks
            self._leaves[call.module, id(x)] = call.gradient
            self._leaf_hooks.callback(handle.remove)

    # The backward pass

    def _receive(self, gradient: StateGradient, value: Tensor) -> None:
        number = self._in_pass()
        self._over = True  # where no root is called, nothing else ends a forward pass
        if self._of_gradient is None:  # that it came says which forward passes are the loss's
            gradient.parts[number] = None
            return
        if value.requires_grad:  # with create_graph
            value = value.detach()
        self.half |= value.dtype is torch.float16
        # Only a graph that is kept can be passed again. Leaves collect from several graphs.
        is_kept = torch._C._autograd._get_current_graph_task_keep_graph()
        if is_kept or gradient.leaf is not None or gradient.parts:
            gradient.parts[number] = value
        else:
            gradient.parts[number] = self._of_gradient(value)

    def _accumulated(self, parameter: Tensor) -> None:
        """A parameter has got its gradient: the pass, and the one around it, are of the loss."""
        if self._is_paused:
            return
        number = self._in_pass()
        around = self._running.index(number)
        if self._running[0] not in self._of_loss:
            self._forget_reset(parameter)
        self._of_loss.update(self._running[: around + 1])

    def _in_pass(self) -> int:
        """The number of the backward pass that is running; see to it that its end is noticed."""
        number = torch._C._current_graph_task_id()
        if number not in self._running:
            self._running.append(number)
            self._saw_backward = True
            # The engine has no public callback. The inner one comes after those that others queue.
            queue = torch.autograd.Variable._execution_engine.queue_callback
            queue(lambda: queue(partial(self._end_pass, number)))
        return number

    def _end_pass(self, number: int) -> None:
        if number in self._running:
            del self._running[self._running.index(number) :]
        # Only the outermost pass completes the gradients: checkpoints run passes inside it.
        if self._running or number not in self._of_loss:
            return
        self._over = True
        self._versions = {p: p.grad._version for p in self._witnesses if p.grad is not None}
        if self.after_backward is not None:
            self.after_backward()

    def _forget_reset(self, parameter: Tensor | None) -> None:
        """Forget the passes before the gradients of the layers' parameters were set to zero.

        ``parameter`` has got its gradient of the new pass already.
        """
        others = [p for p in self._versions if p is not parameter]
        if not others or not all(map(self._was_reset, others)):
            return
        self._superseded |= self.reached()
        self._of_loss.clear()
        self._versions = {}

    def _was_reset(self, parameter: Tensor) -> bool:
        gradient = parameter.grad
        if gradient is None:  # zero_grad(set_to_none=True), the default
            return True
        if gradient._version == self._versions[parameter]:
            return False
        values = gradient._values() if gradient.is_sparse else gradient
        return not bool(values.any())

    # Results

    def _counts(self, gradient: StateGradient) -> list[Any]:
        """The gradients of a state in the backward passes of the loss."""
        if not self._trained and not self._of_loss:  # nothing is trained: all passes are alike
            return list(gradient.parts.values())
        return [part for number, part in gradient.parts.items() if number in self._of_loss]

    def reached(self) -> set[int]:
        """The forward passes to which the loss's gradient has come."""
        found = set()
        for call in self.calls:
            if call.gradient is not None and self._counts(call.gradient):
                found.add(call.forward_pass)
        return found

    def counted(self) -> list[list[Call]]:
        """The calls of each forward pass of the loss.

        A pass that the loss's gradient left out, while it reached others, is not one of them.
        """
        reached = self.reached()
        passes: dict[int, list[Call]] = {}
        for call in self.calls:
            passes.setdefault(call.forward_pass, []).append(call)
        found = []
        for number, calls in passes.items():
            left_out = number in self._superseded
            if reached and not left_out:
                # A pass in which no state needs a gradient, as behind frozen layers, is not.
                left_out = all(call.without_autograd for call in calls)
                left_out = left_out or any(call.gradient is not None for call in calls)
            if number in reached or not left_out:
                found.append(calls)
        return found

    @property
    def had_loss(self) -> bool:
        """True if there was a backward pass of the loss."""
        return bool(self._of_loss) or bool(self.reached())

    @property
    def had_only_others(self) -> bool:
        """True if there were backward passes, and none of the loss."""
        return self._saw_backward and not self.had_loss

    def total(self, gradient: StateGradient) -> RowMoments | Literal["lost"] | None:
        """The statistics of a state's gradient, the sum over all backward passes of the loss.

        None if the loss does not depend on the state so far, "lost" if a part is not kept.
        """
        assert self._of_gradient is not None
        parts = self._counts(gradient)
        if not parts:
            return None
        vectors = [part for part in parts if isinstance(part, Tensor)]
        if len(vectors) == len(parts):
            return self._of_gradient(sum(vectors[1:], vectors[0]))
        # Statistics of vectors do not tell those of their sum.
        return parts[0] if len(parts) == 1 else "lost"


def _around(root: nn.Module, layers: set[nn.Module]) -> set[nn.Module]:
    """The model, and the modules inside it that contain all layers and are none."""
    found = {root}
    inner: nn.Module | None = root
    while inner is not None:
        children, inner = list(inner.children()), None
        for child in children:
            if child not in layers and layers and layers <= set(child.modules()):
                found.add(child)
                inner = child
    return found


def _is_ours(hook: object) -> bool:
    return isinstance(getattr(hook, "__self__", None), CallRecorder)


def _reduce_without_hooks(module: nn.Module, protocol: int) -> tuple[Any, ...]:
    """Reduce a module for copy and pickle, without the hooks of recorders."""
    reduced: Any = type(module).__reduce_ex__(module, protocol)
    make, arguments, state, *rest = reduced
    state = dict(state)  # a shallow copy: the module itself keeps its hooks
    state.pop("__reduce_ex__", None)
    for table in ("_forward_pre_hooks", "_forward_hooks"):
        ours = [key for key, hook in state[table].items() if _is_ours(hook)]
        # PyTorch notes in tables of their own which hooks take keywords, or run after errors.
        for of_hooks in (table, f"{table}_with_kwargs", f"{table}_always_called"):
            if of_hooks in state:
                kept = state[of_hooks].copy()
                for key in ours:
                    kept.pop(key, None)
                state[of_hooks] = kept
    return make, arguments, state, *rest


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
