"""Configs that are given by their address: ``--config https://...``."""

from http.client import HTTPException

from gnn_depth.cli.errors import UsageError

MOST_BYTES = 1_000_000  # a config is a few hundred bytes


def is_address(source: str) -> bool:
    """Whether a config is to be fetched, rather than read from a file."""
    return "://" in source


def fetch(url: str) -> str:
    """The text of a config at an address, over verified https alone.

    Raises:
        UsageError: It cannot be had, is of another kind of address, or is too large for a config.
    """
    if not url.startswith("https://"):
        raise UsageError(f"config {url!r}: configs are fetched by https:// alone: anyone on the way can change others.")
    from gnn_depth.data.downloads import open_url  # imports torch

    try:
        with open_url(url) as response:
            content: bytes = response.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UsageError(f"config {url!r} has more than {MOST_BYTES} bytes: that is no config.")
        return content.decode("utf-8")
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise UsageError(f"config {url!r} cannot be fetched: {reason}.") from None
