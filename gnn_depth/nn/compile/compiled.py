"""Compilation of the blocks of a stack."""

import contextlib
import logging
import os
import re
import struct
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gnn_depth.graph import Graph

log = logging.getLogger("gnn_depth")

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
#: Shapes of blocks in one stack: first, middle and last, in training and evaluation, and some in
#: reserve.
MAX_VARIANTS = 32
YOUNG_SECONDS = 60


class CompiledBlocks:
    """The tensor operations of a stack's blocks, compiled once for all blocks of equal shape.

    If compiling fails, they run uncompiled from then on.

    Args:
        function: The function that is compiled; its first argument is the block.
        only: Compile only for training on this graph; by default for all graphs, and for evaluation
            too.

    Attributes:
        failed: The reason why it runs uncompiled: no C++ compiler, or code that cannot be compiled.
    """

    def __init__(self, function: Callable[..., Any], only: Graph | None = None) -> None:
        self.function, self.only = function, only
        self.failed: str | None = None
        self._removed: set[Path] = set()
        self._derived: weakref.WeakSet[Graph] = weakref.WeakSet()
        self._modules: list[nn.Module] | None = None
        compile_as: Any = torch.compile  # its stubs lack the limit and the isolation
        # Isolated: stacks do not share compiled code or its limit.
        self._compiled = compile_as(
            function,
            dynamic=False,
            recompile_limit=MAX_VARIANTS,
            isolate_recompiles=True,
            options=_options(),
        )

    def for_pass(self, stack: Any, graph: Graph, graphs: Sequence[Graph]) -> "CompiledPass | None":
        """The function for one pass of a stack, given the graph of each layer; None if the pass
        runs uncompiled."""
        if (
            self._modules is None
        ):  # listed once, because walking the module tree in every pass is slow
            self._modules = [
                module
                for block in stack.blocks
                for module in block.modules()
                if module is not block
            ]
        if self.failed or any(map(has_hooks, self._modules)):
            return None
        if self.only is not None and not (stack.training and graph is self.only):
            return None
        if any(each not in self._derived for each in dict.fromkeys(graphs)):
            _derive(stack, graphs)
            self._derived.update(graphs)
        return CompiledPass(self)

    def __call__(self, *args: Any) -> Any:
        if self.failed is None:
            try:
                return self._compiled(*args)
            except _compile_errors() as error:
                if _remove_damaged(error, self._removed):
                    return self(*args)
                self.failed = " ".join(str(error).strip().splitlines()[:2])
                log.warning(
                    "layers run uncompiled from here on: %s; if compiled code on the disk is "
                    "damaged, remove %s",
                    self.failed,
                    os.environ.get(CACHE_VARIABLE, "torch's cache"),
                )
        return self.function(*args)

    def again(self, *args: Any) -> Any:
        """Run compiled even after a failure, because a backward pass must match its forward
        pass."""
        return self._compiled(*args)

    def __deepcopy__(self, memo: dict[int, Any]) -> "CompiledBlocks":
        return CompiledBlocks(self.function, self.only)

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledBlocks, (self.function, self.only)


class CompiledPass:
    """Runs the blocks of one pass; a block recomputed in the backward pass runs as it did the first
    time."""

    def __init__(self, compiled: CompiledBlocks) -> None:
        self._compiled = compiled
        self._ran_compiled: set[int] = set()

    def __call__(self, block: nn.Module, *args: Any) -> Any:
        if id(block) in self._ran_compiled:
            return self._compiled.again(block, *args)
        found = self._compiled(block, *args)
        if self._compiled.failed is None:
            self._ran_compiled.add(id(block))
        return found


@torch.no_grad()
def _derive(stack: Any, graphs: Sequence[Graph]) -> None:
    """Let the graphs compute and cache everything that layers and norms need, because compiled code
    cannot."""
    for layer, graph in zip(stack.layers, graphs, strict=True):
        training = layer.training
        weight = next(layer.parameters(), torch.zeros(0, device=graph.device))
        x = weight.new_zeros((graph.num_sources, layer.in_channels))
        layer.eval()(*((x, graph, x) if layer.reads_first else (x, graph)))
        layer.train(training)
    for graph in dict.fromkeys(graphs):
        graph.derive()


def has_hooks(module: nn.Module) -> bool:
    """True if a module has hooks: compiled code ignores them, or calls those present when it was
    compiled."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def _options() -> dict[str, Any]:
    import gnn_depth.nn.compile.lowering  # noqa: F401  (these import the compiler)
    from gnn_depth.nn.compile.partition import Recompute

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


def _compile_errors() -> tuple[type[Exception], ...]:
    from torch._dynamo.exc import TorchDynamoException
    from torch._inductor.exc import CppCompileError, InvalidCxxCompiler

    return TorchDynamoException, CppCompileError, InvalidCxxCompiler


def _remove_damaged(error: Exception, removed: set[Path]) -> bool:
    """Remove the library of torch's cache that an error names, so that it is compiled anew; each
    only once.

    Torch writes libraries in place and uses any file it finds, so later runs could not compile this
    code.
    """
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    found = re.search(r"(/[^\n:]+\.so): ", str(error))
    library = Path(found[1]) if found else None
    if (
        library is None
        or library in removed
        or not library.is_file()
        or Path(cache_dir()) not in library.parents
    ):
        return False
    removed.add(library)
    library.unlink()
    return True


def remove_torn(cache: Path) -> None:
    """Remove libraries of a cache that end before their table of sections: loading them would kill
    the process.

    Young ones stay, because another process may be writing them.
    """
    for library in cache.glob("*/*.so"):
        with contextlib.suppress(OSError, struct.error):
            with library.open("rb") as file:
                header = file.read(64)
            if header[:6] == b"\x7fELF\x02\x01":  # 64 bits, little endian
                (start,), (size, count) = (
                    struct.unpack_from("<Q", header, 40),
                    struct.unpack_from("<HH", header, 58),
                )
                found = library.stat()
                if (
                    found.st_size < start + size * count
                    and time.time() - found.st_mtime > YOUNG_SECONDS
                ):
                    library.unlink()


def keep_compiled_code() -> None:
    """Keep compiled code between runs, in the user's cache folder: torch's default folder is a
    temporary one.

    What a killed run left incomplete there is removed.

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
