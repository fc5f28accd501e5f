"""The programs compiled for devices that are not here: registers, spills and shared memory of each.

``python -m quadnorm.norms.kernels.triton.targets sm80 sm90 sm100 gfx942`` prints the table. Triton's own assemblers are
enough; no driver and no device is asked.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from quadnorm.norms.kernels.triton import programs
from quadnorm.norms.kernels.triton.launch import MERGED, MERGERS
from quadnorm.norms.kernels.triton.tiles import ROW, TILE, Tile, part_of_row

TARGETS = {
    "sm80": GPUTarget("cuda", 80, 32),
    "sm90": GPUTarget("cuda", 90, 32),
    "sm100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}


class KernelVariant(NamedTuple):
    """One program with one tile, and what is switched on."""

    program: Any
    tile: Tile
    constants: dict[str, Any]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return MERGERS if "BT" in self.constants else self.tile.threads


class Resources(NamedTuple):
    """What one thread, and one block of threads, needs."""

    target: str
    program: str
    dtype: str
    tile: Tile
    threads: int
    registers: int
    spills: int  # NVIDIA: bytes of stack and local memory; AMD: spilled vector and scalar registers
    shared: int  # bytes


def variants() -> Iterator[KernelVariant]:
    """Every program with the largest tiles that are launched, and with holes, affine parameters and all gradients."""
    holes: dict[str, Any] = {"HOLES": True}
    both = {"CENTRE": True, **holes}
    for tile in (Tile(1, ROW), Tile(32, ROW // 32)):
        yield KernelVariant(programs.forward_row, tile, both)
        yield KernelVariant(programs.backward_row, tile, both)
    for tile in (part_of_row(64, 2**20), part_of_row(64, 33 * 33)):
        yield KernelVariant(programs.moments_tile, tile, both)
        yield KernelVariant(programs.output_tile, tile, holes)
        yield KernelVariant(programs.sums_tile, tile, holes)
        yield KernelVariant(programs.gradient_tile, tile, {"dw_ptr": None, **holes})
    for tile in (Tile(1, TILE // 2), Tile(32, TILE // 64)):
        yield KernelVariant(programs.gradient_tile, tile, holes)
    yield KernelVariant(programs.merge_row, Tile(1, MERGED), {"CENTRE": True, "BT": MERGED})
    yield KernelVariant(programs.merge_sums, Tile(32, 16), {"CENTRE": True, "BD": 32, "BT": 16})


def compiled(variant: KernelVariant, target: str, dtype: str = "fp32", aligned: bool = True) -> Any:
    """Triton's compiled kernel. ``aligned``: sizes are multiples of 16, so that loads are vectors."""
    program, tile, constants = variant
    if "BT" not in constants:
        constants = {**constants, "BD": tile.channels, "BN": tile.samples}
    signature: dict[str, str] = {}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for i, name in enumerate(program.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif name.endswith("_ptr"):
            signature[name] = f"*{dtype}" if name in ("x_ptr", "y_ptr", "g_ptr", "dx_ptr") else "*fp32"
            attributes[(i,)] = [["tt.divisibility", 16]]
        else:
            signature[name] = "fp32" if name == "eps" else "i32"
            if aligned and name in ("N", "own"):
                attributes[(i,)] = [["tt.divisibility", 16]]
    source = ASTSource(program, signature, constants, attributes)
    warps = variant.threads // TARGETS[target].warp_size
    return triton.compile(source, target=TARGETS[target], options={"num_warps": warps})


def resources(variant: KernelVariant, target: str, dtype: str = "fp32", aligned: bool = True) -> Resources:
    """Compile and read the assembler's own account."""
    kernel = compiled(variant, target, dtype, aligned)
    if target.startswith("gfx"):
        text = kernel.asm["amdgcn"]

        def value(key: str) -> int:
            return int(re.search(rf"\.{key}:\s*(\d+)", text)[1])  # type: ignore[index]

        used = value("vgpr_count"), value("vgpr_spill_count") + value("sgpr_spill_count")
    else:
        usage = _cubin_usage(kernel.asm["cubin"])
        used = usage["REG"], usage["STACK"] + usage["LOCAL"]
    return Resources(
        target, variant.program.__name__, dtype, variant.tile, variant.threads, *used, kernel.metadata.shared
    )


def _cubin_usage(cubin: bytes) -> dict[str, int]:
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True)
    return {key: int(value) for key, value in re.findall(r"\b(REG|STACK|LOCAL|SHARED):(\d+)", done.stdout)}


def table(targets: tuple[str, ...], dtypes: tuple[str, ...] = ("fp32", "bf16")) -> list[Resources]:
    """Resources of every variant, sizes aligned and not."""
    return [
        resources(variant, target, dtype, aligned)
        for target in targets
        for variant in variants()
        for dtype in dtypes
        for aligned in (True, False)
    ]


def main(arguments: list[str]) -> None:
    """Print the table for the targets named."""
    print(
        "| target | program | tile | threads | dtype | registers | spills | shared |\n|---|---|---|---|---|---|---|---|"
    )
    for r in table(tuple(arguments) or tuple(TARGETS)):
        tile = f"{r.tile.channels}×{r.tile.samples}"
        print(
            f"| {r.target} | {r.program} | {tile} | {r.threads} | {r.dtype} | {r.registers} | {r.spills} | {r.shared} |"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
