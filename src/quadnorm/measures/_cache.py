"""The one bounded cache of derived tensors: weights, positions, matrices of waves and interpolation.

Whoever keeps tensors begins its keys with a word of its own."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from quadnorm import _torch
from quadnorm._tensors import constant, outlives_its_maker

MAX_BYTES = 256 * 2**20


class TensorCache:
    """Least-recently-used tensors, bounded by their total size rather than their number.

    A tensor larger than the bound is built each time and never kept.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._items: OrderedDict[Hashable, Tensor] = OrderedDict()
        self._lock = threading.Lock()

    @constant
    def get(self, key: Hashable, build: Callable[[], Tensor]) -> Tensor:
        """The tensor of ``key``, built at most once while it stays in the cache. Shared: treat it as read-only."""
        if _torch.dispatch_modes():  # fake tensors and tracers want tensors of their own
            return build()
        with self._lock:
            if key in self._items:
                self._items.move_to_end(key)
                return self._items[key]
        # A tensor born in inference mode could never be saved for backward by a later training step.
        with torch.inference_mode(False), torch.no_grad():
            value = build()
        if outlives_its_maker(value):  # a fake, traced or wrapped tensor means nothing later
            self._keep(key, value)
        return value

    def _keep(self, key: Hashable, value: Tensor) -> None:
        size = value.numel() * value.element_size()
        if size > self.max_bytes:
            return
        with self._lock:
            if key in self._items:
                return
            self._items[key] = value
            self.bytes += size
            while self.bytes > self.max_bytes:
                _, old = self._items.popitem(last=False)
                self.bytes -= old.numel() * old.element_size()

    def __len__(self) -> int:
        return len(self._items)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items.clear()
            self.bytes = 0


CACHE = TensorCache()
