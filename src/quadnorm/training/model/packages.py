"""Models of other packages as operators that a config can name: the FNOs of neuraloperator and of PhysicsNeMo."""

from __future__ import annotations

from typing import Any

import torch
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


class PhysicsnemoFNO(nn.Module):
    """``physicsnemo.models.fno.FNO`` with the arguments of this package's operators; needs ``nvidia-physicsnemo``.

    The defaults are those of PhysicsNeMo's example ``darcy_fno``. ``theirs`` is PhysicsNeMo's model. It has no norm.

    x (B, C_in, *spatial) -> y (B, C_out, *spatial)

    Args:
        width: their ``latent_channels``, and the width of their decoder.
        modes: their ``num_fno_modes``, on every axis: the waves 0 … modes − 1 of both signs.
        padding: samples of zeros behind each axis, as many on every grid: the share of the domain depends on the grid.
    """

    def __init__(
        self,
        in_channels: int = 1,
        out_channels: int = 1,
        width: int = 32,
        modes: int = 12,
        layers: int = 4,
        dim: int = 2,
        norm: str = "none",
        padding: int = 9,
    ) -> None:
        super().__init__()
        if norm != "none":
            raise ValueError(f"PhysicsNeMo's FNO has no norms; expected norm 'none', got {norm!r}")
        try:
            # While it is imported it reads values of tensors, which there are none of on ``meta``.
            with torch.device("cpu"):
                from physicsnemo.models.fno import FNO
        except ImportError as error:
            raise ImportError(f"this needs PhysicsNeMo: pip install nvidia-physicsnemo ({error})") from None
        self.dim = dim
        self.theirs = FNO(
            in_channels,
            out_channels,
            decoder_layer_size=width,
            dimension=dim,
            latent_channels=width,
            num_fno_layers=layers,
            num_fno_modes=modes,
            padding=padding,
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.theirs(x)
        return y
