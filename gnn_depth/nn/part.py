"""What parts of every kind can say of themselves."""

from collections.abc import Mapping
from typing import Any, ClassVar

from gnn_depth.ailments import Ailment


class Part:
    """The base of the abstract parts.

    Attributes:
        treats: What it is a remedy for in a deep stack: ``gnn-depth probe`` proposes it where it finds that.
        dose: Options that it treats this with, where its defaults do not.
    """

    treats: ClassVar[tuple[Ailment, ...]] = ()
    dose: ClassVar[Mapping[str, Any]] = {}
