"""QuadNorm for the ``norm`` argument of neuraloperator's models."""

from __future__ import annotations

from functools import wraps
from typing import Any

from torch import nn

from quadnorm.norms import make_norm

_THEIRS = ("instance_norm", "group_norm", "batch_norm", "ada_in")


def use_quadnorm() -> None:
    """Let neuraloperator's models take this package's norms: ``FNO(..., norm="quad:instance")``.

    ``FNOBlocks``, and with it FNO, TFNO, UNO and the rest, then accept for ``norm`` whatever
    :func:`quadnorm.make_norm` does, besides their own names. Affects models made afterwards, in this process;
    calling it again does nothing more.

    >>> use_quadnorm()
    >>> from neuralop.models import FNO
    >>> model = FNO(n_modes=(8, 8), in_channels=1, out_channels=1, hidden_channels=8, n_layers=1, norm="quad:instance")
    >>> model.fno_blocks.norm[0]
    QuadNorm(8, eps=1e-05, affine=True, mode='instance', measure=Grid('trapezoid'))
    """
    try:
        from neuralop.layers import fno_block
    except ImportError:
        raise ImportError("this needs neuraloperator: pip install 'quadnorm[compat]'") from None
    blocks = fno_block.FNOBlocks
    original = blocks.__init__
    if getattr(original, "takes_quadnorm", False):
        return

    @wraps(original)
    def init(self: Any, *args: Any, norm: Any = None, **options: Any) -> None:
        if norm is None or norm in _THEIRS:
            original(self, *args, norm=norm, **options)
            return
        original(self, *args, norm=None, **options)
        if self.complex_data:
            raise ValueError(f"norm={norm!r} needs real data, got complex_data=True")
        self.norm = nn.ModuleList(make_norm(norm, self.out_channels) for _ in range(self.n_layers * self.n_norms))

    init.takes_quadnorm = True  # type: ignore[attr-defined]
    blocks.__init__ = init
