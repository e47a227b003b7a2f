"""Compile the blocks of a stack, and keep compiled code on the disk between runs."""

import contextlib
import logging
import os
import re
import struct
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gnn_depth import torch_internals
from gnn_depth.graph import Graph
from gnn_depth.nn import native
from gnn_depth.nn.block import Block, Hidden, States
from gnn_depth.nn.parts import Layer

log = logging.getLogger("gnn_depth")

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
#: Shapes of blocks in one stack: first, middle and last, in training and evaluation, and some in
#: reserve.
MAX_VARIANTS = 32
YOUNG_SECONDS = 60


class CompiledFunction:
    """A method of blocks, compiled once for all blocks of equal shape.

    If compiling fails, blocks that have not run compiled yet run uncompiled from then on.

    Args:
        function: The method, which takes the block, its input, its graph and one more argument.
        only: Compile only for training on this graph; by default for all graphs, and for evaluation
            too.
        in_training: False if every training step has another graph.

    Attributes:
        compiled: The compiled form of the function.
        failed: The reason why it runs uncompiled: no C++ compiler, or code that cannot be compiled.
    """

    def __init__(
        self, function: Callable[..., Tensor], only: Graph | None = None, in_training: bool = True
    ) -> None:
        self.function = function
        self.only = only
        self.in_training = in_training
        self.failed: str | None = None
        self._removed: set[Path] = set()
        compile_as: Any = torch.compile  # its stubs lack the limit and the isolation
        # Isolated: stacks do not share compiled code or its limit.
        self.compiled: Callable[..., Tensor] = compile_as(
            function,
            dynamic=False,
            recompile_limit=MAX_VARIANTS,
            isolate_recompiles=True,
            options=_options(),
        )

    def serves(self, block: Block, graph: Graph) -> bool:
        """True if the block is to run compiled on this graph."""
        if graph.is_shard:  # its communication cannot be compiled
            return False
        if self.only is not None:
            return block.training and graph.whole is self.only
        return self.in_training or not block.training

    def fail(self, error: Exception) -> None:
        """Run uncompiled from here on, with one warning."""
        if self.failed is None:
            self.failed = " ".join(str(error).strip().splitlines()[:2])
            log.warning(
                "layers run uncompiled from here on: %s; if compiled code on the disk is "
                "damaged, remove %s",
                self.failed,
                os.environ.get(CACHE_VARIABLE, "torch's cache"),
            )

    def run(self, *args: Any) -> Tensor:
        """Call the compiled form; libraries that are damaged on the disk are compiled anew."""
        try:
            return self.compiled(*args)
        except compile_errors() as error:
            if _remove_damaged(error, self._removed):  # at most once for each library
                return self.run(*args)
            raise

    # Compiled code is neither copied nor pickled: a copy compiles for itself.
    def __deepcopy__(self, memo: dict[int, Any]) -> "CompiledFunction":
        return CompiledFunction(self.function, self.only, self.in_training)

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledFunction, (self.function, self.only, self.in_training)


class CompiledCall:
    """Takes the place of a method of one block, and runs its compiled form where that serves."""

    def __init__(self, shared: CompiledFunction, block: Block) -> None:
        self.shared = shared
        self.block = block
        self._derived: weakref.WeakSet[Graph] = weakref.WeakSet()
        self._inside: list[nn.Module] | None = None
        # A block that the backward pass recomputes must run as in the forward pass, so one that has
        # run compiled stays compiled when another block fails.
        self._has_worked = False

    def __call__(self, x: Hidden, graph: Graph, rest: States | Tensor | None) -> Tensor:
        shared, block = self.shared, self.block
        if self._inside is None:  # walking the module tree in every pass would be slow
            self._inside = [module for module in block.modules() if module is not block]
        may_work = shared.failed is None or self._has_worked
        # Compiled code would ignore hooks on the modules inside, or call those that were there when
        # it was compiled; those on the block run outside.
        may_work = may_work and shared.serves(block, graph)
        if may_work and not any(map(torch_internals.has_hooks, self._inside)):
            if graph not in self._derived:
                _derive(block.layer, graph)  # once for each graph
                self._derived.add(graph)
            try:
                out = shared.run(block, x, graph, rest)
            except compile_errors() as error:
                self._has_worked = False
                shared.fail(error)
            else:
                self._has_worked = True
                return out
        return shared.function(block, x, graph, rest)

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledCall, (self.shared, self.block)


def compile_blocks(stack: Any, only: Graph | None = None) -> CompiledFunction:
    """Compile the blocks of a stack: see :meth:`gnn_depth.nn.stack.DeepGNN.compile_layers`."""
    # A reversible block changes another group of channels each time, and a skip connection that
    # reads all states gets one more each time: such blocks would all be compiled separately.
    reads_all = any(skip.reads == "all" for skip in stack.skips)
    name = "forward"
    if stack.reversible or reads_all:
        name = "update"
    # A graph dropout makes a new graph in every step, and compiling pays only over many steps.
    # All blocks share the compiled code of each shape.
    shared = CompiledFunction(getattr(Block, name), only, in_training=not stack.graph_dropout.p)
    for block in stack.blocks:
        setattr(block, name, CompiledCall(shared, block))
    return shared


@torch.no_grad()
def _derive(layer: Layer, graph: Graph) -> None:
    """Let the graph compute what the layer needs of it, because compiled code cannot."""
    training = layer.training
    weight = next(layer.parameters(), torch.zeros(0, device=graph.device))
    x = weight.new_zeros((graph.num_sources, layer.in_channels))
    layer.eval()  # draws no random numbers
    with native.plain():  # kernels derive other things
        if layer.reads_first:
            layer(x, graph, x)
        else:
            layer(x, graph)
    layer.train(training)
    graph.derive()


def _options() -> dict[str, Any]:
    import gnn_depth.nn.variants.lowering  # noqa: F401  (these import the compiler)
    from gnn_depth.nn.variants.recompute import Recompute

    return {
        # The random numbers of uncompiled code, so that a seed gives the same dropout masks.
        "fallback_random": True,
        # Calls the kernels of a block from C++, not from Python, which is faster on CPUs.
        "cpp_wrapper": not torch.cuda.is_available(),
        # Stores the gradient of a softmax instead of computing it twice: it is read in two orders
        # of the edges.
        "realize_reads_threshold": 3,
        "joint_custom_post_pass": Recompute(),
    }


def compile_errors() -> tuple[type[Exception], ...]:
    from torch._dynamo.exc import TorchDynamoException
    from torch._inductor.exc import CppCompileError, InvalidCxxCompiler

    return TorchDynamoException, CppCompileError, InvalidCxxCompiler


def _remove_damaged(error: Exception, removed: set[Path]) -> bool:
    """Remove the library of torch's cache that an error names, so that it is compiled anew.

    Each is removed only once. Torch writes libraries in place and uses any file it finds, so later
    runs could not compile this code.
    """
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    found = re.search(r"(/[^\n:]+\.so): ", str(error))  # as the loader writes it
    if found is None:
        return False
    library = Path(found[1])
    is_in_cache = library.is_file() and Path(cache_dir()) in library.parents
    if not is_in_cache or library in removed:
        return False
    removed.add(library)
    library.unlink()
    return True


def remove_torn(cache: Path) -> None:
    """Remove libraries of a cache that end before their table of sections.

    Loading them would kill the process. Young ones stay, because another process may be writing
    them.
    """
    for library in cache.glob("*/*.so"):
        with contextlib.suppress(OSError, struct.error):
            with library.open("rb") as file:
                header = file.read(64)
            if header[:6] != b"\x7fELF\x02\x01":  # 64 bits, little endian
                continue
            (start,) = struct.unpack_from("<Q", header, 40)
            size, count = struct.unpack_from("<HH", header, 58)
            found = library.stat()
            is_torn = found.st_size < start + size * count
            if is_torn and time.time() - found.st_mtime > YOUNG_SECONDS:
                library.unlink()


def keep_compiled_code() -> None:
    """Keep compiled code between runs, in the user's cache folder.

    Torch's default folder is a temporary one. What a killed run left incomplete is removed.

    Changes ``os.environ`` and a setting of torch for the whole process, so only commands call it.
    """
    from torch._functorch import config
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    if os.environ.get(CACHE_VARIABLE, default_cache_dir()) == default_cache_dir():
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        os.environ[CACHE_VARIABLE] = str(cache / "gnn_depth" / "compiled")
    remove_torn(Path(os.environ[CACHE_VARIABLE]))
    # Cache traces of custom autograd functions too; ours are pure. Torch plans this as default
    # (pytorch/pytorch#149751).
    if hasattr(config, "autograd_cache_allow_custom_autograd_functions"):
        config.autograd_cache_allow_custom_autograd_functions = True
