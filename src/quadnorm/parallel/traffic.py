"""What a block of code sends: the number of collectives and their bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.distributed.tensor import DTensor

from quadnorm import _torch

_TorchDispatchMode: Any = _torch.named("torch.utils._python_dispatch:TorchDispatchMode")
_SILENT = ("wait_tensor", "barrier", "monitored_barrier", "_wrap_tensor_autograd")  # nothing of the field is sent


@dataclass(frozen=True)
class Message:
    """One collective: its name, and the numbers and bytes that a rank puts in."""

    name: str
    numbers: int
    bytes: int


class Traffic(_TorchDispatchMode):
    """A list of the collectives that were called inside a ``with`` block, forward and backward alike.

    Complex numbers count as two. Works with any backend, also with the ``fake`` one, on which a single process can
    play one rank of a thousand.

    >>> import torch
    >>> from quadnorm import QuadNorm
    >>> from quadnorm.parallel import Traffic, shard, single
    >>> layer = shard(QuadNorm(4), single(), size=8)
    >>> with Traffic() as traffic:
    ...     y = layer(torch.randn(2, 4, 8))
    >>> traffic.messages  # μ and M of two entries and one group, in float64
    [Message(name='all_gather_into_tensor', numbers=4, bytes=32)]
    """

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Message] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note a collective, then run it."""
        if any(issubclass(t, DTensor) for t in types):  # it calls collectives of its own, which come by here
            return NotImplemented
        name = func.name() if hasattr(func, "name") else str(func)
        space, _, op = name.partition("::")
        op = op.split(".")[0]
        if space in ("_c10d_functional", "c10d") and op.rstrip("_") not in _SILENT:
            tensors = [t for t in _tensors(args) if t.numel()]
            sent = tensors[-1:] if op.startswith("_allgather_base") else tensors
            numbers = sum(t.numel() * (2 if t.is_complex() else 1) for t in sent)
            self.messages.append(Message(op, numbers, sum(t.numel() * t.element_size() for t in sent)))
        return func(*args, **(kwargs or {}))

    @property
    def bytes(self) -> int:
        """Bytes that this rank put in, in all."""
        return sum(m.bytes for m in self.messages)


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [t for v in value for t in _tensors(v)] if isinstance(value, (tuple, list)) else []
