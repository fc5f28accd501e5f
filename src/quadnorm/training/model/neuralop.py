"""neuraloperator's FNO as an operator that a config can name."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

NORMS = {"none": None, "group": "group_norm", "instance": "instance_norm"}


class NeuralopFNO(nn.Module):
    """``neuralop.models.FNO`` with the arguments of this package's operators; needs the extra ``compat``.

    Its defaults are those of neuraloperator's tutorial on the small Darcy set. The model itself is ``theirs``. Their
    ``state_dict`` holds a dictionary beside the tensors, which files of tensors cannot; it is left out here. Inside it
    is single precision.

    x (B, C_in, *spatial) -> y (B, C_out, *spatial)

    Args:
        width: their ``hidden_channels``.
        modes: their ``n_modes``, on every axis. They count both signs: 8 are the waves −4 … 3 (on the last axis 0 … 4).
        norm: ``none``, ``group`` (their one group: layer norm), ``instance``, or whatever :func:`quadnorm.make_norm`
            takes.
        padding: their ``domain_padding``.
    """

    def __init__(
        self,
        in_channels: int = 1,
        out_channels: int = 1,
        width: int = 24,
        modes: int = 8,
        layers: int = 4,
        dim: int = 2,
        norm: str = "none",
        padding: float | None = None,
    ) -> None:
        super().__init__()
        try:
            from neuralop.models import FNO
        except ImportError:
            raise ImportError("this needs neuraloperator: pip install 'quadnorm[compat]'") from None

        from quadnorm.adapt.anchoring.neuralop import use_quadnorm

        if norm not in NORMS:
            use_quadnorm()
        self.dim = dim
        self.theirs = FNO(
            n_modes=(modes,) * dim,
            in_channels=in_channels,
            out_channels=out_channels,
            hidden_channels=width,
            n_layers=layers,
            norm=NORMS.get(norm, norm),
            domain_padding=padding,
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.theirs(x.float())
        return y.to(x.dtype)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """Their layer makes single-precision spectra whatever its weights are: these keep their dtype."""
        return super()._apply(lambda t: fn(t).to(t.dtype), recurse)  # type: ignore[no-untyped-call]

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """The tensors alone."""
        state = super().state_dict(*args, **options)
        state.pop("_metadata", None)
        return state
