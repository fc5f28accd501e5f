"""
One field in two processes
==========================

A field too large for one device is split over ranks. A norm's statistics are two numbers per group: the ranks exchange
those and nothing else, and the result is that of one process.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import quadnorm as qn

# %%
# The program that ``torchrun`` starts twice. Each rank holds its rows, and counts what it sends.

PROGRAM = """
import sys
import torch
import torch.distributed as dist
import quadnorm as qn
from quadnorm.parallel import Traffic, shard

dist.init_process_group("gloo")
rank, n = dist.get_rank(), 257
r = torch.linspace(0, 1, n)
x = (torch.sin(4 * r)[:, None] * torch.exp(r))[None, None]      # (1, 1, 257, 257)
rows = x.tensor_split([129], dim=2)[rank]                       # 129 rows here, 128 there

norm = shard(qn.QuadNorm(1, affine=False), dist.group.WORLD, axis=0, size=[129, 128])
with Traffic() as traffic:
    y = norm(rows)
torch.save((y, traffic.bytes), f"{sys.argv[1]}/rank{rank}.pt")
dist.destroy_process_group()
"""

with tempfile.TemporaryDirectory() as folder:
    program = Path(folder) / "program.py"
    program.write_text(PROGRAM)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run([*launch, str(program), folder], check=True, capture_output=True)
    parts = [torch.load(Path(folder) / f"rank{rank}.pt") for rank in (0, 1)]

# %%
# Put together, the two halves are what one process computes.

r = torch.linspace(0, 1, 257)
x = (torch.sin(4 * r)[:, None] * torch.exp(r))[None, None]
whole = qn.QuadNorm(1, affine=False)(x)
joined = torch.cat([y for y, _ in parts], dim=2)
print(f"largest difference from one process: {float((joined - whole).abs().max()):.1e}")
print(f"sent by each rank: {parts[0][1]} bytes; its rows: {parts[0][0].numel() * 4} bytes")

fig, axes = plt.subplots(1, 3, figsize=(9.5, 3), layout="constrained")
images = {"rank 0": parts[0][0], "rank 1": parts[1][0], "one process": whole}
for axis, (name, values) in zip(axes, images.items(), strict=True):
    image = axis.imshow(values[0, 0], vmin=whole.min(), vmax=whole.max(), extent=(0, 1, values.shape[2] / 257, 0))
    axis.set_title(f"{name}: {values.shape[2]} rows", fontsize=9)
    axis.set_axis_off()
fig.colorbar(image, ax=axes, shrink=0.8)
plt.show()
