"""neuraloperator's FNO as an operator that a config can name."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

NORMS = {"none": None, "group": "group_norm", "instance": "instance_norm"}


class NeuralopFNO(nn.Module):
    """``neuralop.models.FNO`` with the arguments of this package's operators; needs the extra ``compat``.

    The defaults are those of neuraloperator's tutorial on the small Darcy set. ``theirs`` is neuraloperator's model.
    Its ``state_dict`` holds a dictionary besides the tensors, which a safetensors file cannot store; here it is left
    out. The model works in single precision.

    x (B, C_in, *spatial) -> y (B, C_out, *spatial)

    Args:
        width: their ``hidden_channels``.
        modes: their ``n_modes``, on every axis. They count both signs: 8 are the waves −4 … 3 (on the last axis 0 … 4).
        norm: ``none``, ``group`` (with one group, that is a layer norm), ``instance``, or a name that
            :func:`quadnorm.make_norm` accepts.
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

        from quadnorm.adapt.neuralop import use_quadnorm

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
        """Leave the dtype unchanged: neuraloperator's layer makes single-precision spectra whatever its weights are."""
        return super()._apply(lambda t: fn(t).to(t.dtype), recurse)

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """The tensors alone."""
        state = super().state_dict(*args, **options)
        state.pop("_metadata", None)
        return state
