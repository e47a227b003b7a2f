"""Compilation of one round of a stack, for all its rounds of equal shape."""

import logging
import os
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gnn_depth.graph import Graph

log = logging.getLogger("gnn_depth")

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
#: Shapes of round that one stack may have: first, middle and last, in training and evaluation, and room for more.
MAX_VARIANTS = 32


class Compiled:
    """A function that runs compiled, or as it is from the moment that compiling it fails.

    Args:
        function: What is compiled.
        only: The graph that it is compiled for; all by default.

    Attributes:
        failed: Why it runs as it is: no C++ compiler, code that cannot be compiled.
        graphs: The graphs that have computed what the function reads of them.
    """

    def __init__(self, function: Callable[..., Any], only: Graph | None = None) -> None:
        _keep_on_disk()
        _keep_functions_too()
        self.function, self.only = function, only
        self.failed: str | None = None
        self.graphs: weakref.WeakSet[Graph] = weakref.WeakSet()
        compile_as: Any = torch.compile  # its stubs lack the limit and the isolation
        # Isolated: a stack neither finds another's compiled code nor fills its room.
        self._compiled = compile_as(
            function, dynamic=False, recompile_limit=MAX_VARIANTS, isolate_recompiles=True, options=_options()
        )

    def __call__(self, *args: Any) -> Any:
        if self.failed is None:
            try:
                return self._compiled(*args)
            except _compile_errors() as error:
                if _remove_torn(error):
                    return self(*args)
                self.failed = str(error).strip().splitlines()[0]
                log.warning("layers run uncompiled from here on: %s", self.failed)
        return self.function(*args)

    def again(self, *args: Any) -> Any:
        """Run what ran compiled before, whatever has failed since: a backward pass expects the same."""
        return self._compiled(*args)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Compiled":
        return Compiled(self.function, self.only)

    def __reduce__(self) -> tuple[Any, ...]:
        return Compiled, (self.function, self.only)


def has_hooks(module: nn.Module) -> bool:
    """Whether a module has what compiled code does not call, or calls as it was when it was compiled."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def _options() -> dict[str, Any]:
    import gnn_depth.nn.compile.lowering  # noqa: F401  (these import the compiler)
    from gnn_depth.nn.compile.recompute import Recompute

    return {
        # Random numbers as without compilation, so that a seed gives the same dropout masks.
        "fallback_random": True,
        # Calls the kernels of a round from C++ rather than from Python: 3 to 9% of a step, measured on CPUs.
        "cpp_wrapper": not torch.cuda.is_available(),
        # What reads four tensors and is read twice is stored rather than computed twice: the gradient of a softmax,
        # read once more in the order of the reversed edges. 6% less for GATv2 on a graph of 400,000 edges.
        "realize_reads_threshold": 3,
        "joint_custom_post_pass": Recompute(),
    }


def _compile_errors() -> tuple[type[Exception], ...]:
    from torch._dynamo.exc import TorchDynamoException
    from torch._inductor.exc import CppCompileError, InvalidCxxCompiler

    return TorchDynamoException, CppCompileError, InvalidCxxCompiler


def _remove_torn(error: Exception) -> bool:
    """Remove the library that an error complains of, if a run that was killed has left a part of it.

    Torch writes libraries in place and takes any that is there, so that no later run could compile this code.
    """
    found = re.search(r"(/[^\n:]+\.so): (file too short|invalid ELF header)", str(error))
    torn = Path(found[1]) if found else None
    if torn is None or not torn.is_file() or Path(os.environ[CACHE_VARIABLE]) not in torn.parents:
        return False
    torn.unlink()
    return True


def _keep_on_disk() -> None:
    """Keep compiled code between runs: torch's default folder is a temporary one."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    if os.environ.get(CACHE_VARIABLE, default_cache_dir()) == default_cache_dir():
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        os.environ[CACHE_VARIABLE] = str(cache / "gnn_depth" / "compiled")


def _keep_functions_too() -> None:
    """Keep what torch has traced of autograd functions of one's own, as of everything else.

    They are pure, and so part of the name under which they are kept. The next run starts in 60% of the processor time
    and needs 10 MB less. It is to be torch's default one day (pytorch/pytorch#149751).
    """
    from torch._functorch import config

    if hasattr(config, "autograd_cache_allow_custom_autograd_functions"):
        config.autograd_cache_allow_custom_autograd_functions = True
