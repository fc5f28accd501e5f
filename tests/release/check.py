"""``make release-check``: what is uploaded can be installed and used, with no extras and with each of them.

    python tests/release/check.py [--only none,bench] [--keep FOLDER]

Builds sdist and wheel, has twine check them, looks into the wheel, then installs it into fresh environments with the
versions of constraints.txt and runs what the extra is for.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
NORMALISE = """
import sys, torch, quadnorm as qn
x = torch.rand(2, 4, 33, 33)
y = qn.QuadNorm(4)(x)
mean = (qn.Grid("trapezoid").weights((33, 33), dtype=y.dtype) * y.mean(1)).sum((-2, -1))
assert mean.abs().max() < 1e-5, mean
model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 1), torch.nn.GroupNorm(1, 4)).eval()
field = torch.linspace(0, 1, 33).exp().expand(1, 1, 33, 33)
assert torch.equal(qn.anchor(model, 33, "endpoint")(field), model(field))
"""
WITHOUT = """
import importlib.util, numpy, quadnorm as qn
assert not any(importlib.util.find_spec(name) for name in ("scipy", "typer", "numba", "matplotlib"))
try:
    qn.voronoi_weights(numpy.random.rand(9, 2))
except ImportError as error:
    assert "quadnorm[mesh]" in str(error), error
else:
    raise AssertionError("voronoi_weights needs scipy")
"""
FAST = """
import torch
from quadnorm.norms.kernels.dispatch import numba_serves
assert numba_serves(torch.rand(2, 4, 33))
"""
TRITON = """
import os, torch, quadnorm as qn
x, layer, y = torch.rand(2, 4, 9, 9), qn.QuadNorm(4), {}
for kernel in ("triton", "torch"):  # the first in Triton's interpreter
    os.environ["QUADNORM_KERNEL"] = kernel
    y[kernel] = layer(x)
assert torch.allclose(y["triton"], y["torch"], atol=1e-5)
"""
MESH = """
import numpy as np, quadnorm as qn
from skfem import MeshTri
assert abs(float(qn.voronoi_weights(np.random.rand(50, 2), bounds=((0, 1), (0, 1))).sum()) - 1) < 1e-12
assert abs(float(qn.lumped_weights(MeshTri().refined(2)).sum()) - 1) < 1e-12
"""
DATA = """
import numpy as np, xarray, quadnorm as qn
grid = {"lat": np.linspace(-90, 90, 19), "lon": np.arange(0.0, 360, 10)}
field = xarray.DataArray(np.zeros((19, 36)), grid, ("lat", "lon"))
assert abs(qn.measure_of(field).total - 4 * np.pi) < 1e-12
"""
COMPAT = """
import torch, quadnorm as qn
from neuralop.models import FNO
model = FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=8, n_layers=1, norm="group_norm").eval()
x = torch.rand(1, 1, 17, 17)
assert (qn.anchor(model, 17, "endpoint")(x) - model(x)).abs().max() < 1e-4
"""
TINY = "problem.name=poisson operator.params.width=8 operator.params.modes=4 operator.params.layers=1 "
TINY += "resolutions.train=17 samples.train=8 samples.val=4 samples.test=4 epochs=2"
BENCH = [
    "--version", "doctor", "data list", "data info darcy", "data show poisson -n 1 -r 17 -o poisson.png",
    f"train {TINY} -o run", "eval run -r 17 33 --how all", "audit run -r 17 33",
    "anchor run -r 17 -o anchored.safetensors", "study list", "study run demo --preset smoke --workers 1 --out results",
    "report results --out report.html", "theory uniform", "advise --operator fno",
]  # fmt: skip
DIST = ["study run demo --preset smoke --dask --workers 1 --out results"]


# extras: what is installed; then Python programs, commands of quadnorm, other modules' commands
ENVIRONMENTS: dict[str, tuple[str, list[str], list[str], list[list[str]]]] = {
    "none": ("", [NORMALISE, WITHOUT], [], []),
    "fast": ("fast", [NORMALISE, FAST], [], []),
    "triton": ("triton", [NORMALISE, TRITON], [], []),
    "mesh": ("mesh", [NORMALISE, MESH], [], []),
    "bench": ("bench", [NORMALISE], BENCH, []),
    "data": ("data", [NORMALISE, DATA], [], []),
    "dist": ("bench,dist", [], DIST, []),
    "compat": ("compat", [NORMALISE, COMPAT], [], []),
    "dev": ("dev", [], [], [["pytest", "--version"], ["ruff", "--version"], ["mypy", "--version"]]),
    "docs": ("docs", [], [], [["sphinx", "--version"]]),
}


def main() -> int:
    """Build, look, install, run; the exit code is the number of environments that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="environments, comma-separated: " + ", ".join(ENVIRONMENTS))
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else list(ENVIRONMENTS)
    if unknown := set(chosen) - set(ENVIRONMENTS):
        parser.error(f"unknown environments: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.keep or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        wheel = build(folder / "dist")
        base = make_base(folder / "base", wheel)
        failed = [name for name in chosen if not works(name, base, wheel, folder)]
    print("\nfailed: " + ", ".join(failed) if failed else f"\nall of it works: {', '.join(chosen)}")
    return len(failed)


def run(command: list[str | Path], **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command, keep what it prints."""
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


def build(dist: Path) -> Path:
    """Source distribution and wheel, checked by twine; returns the wheel."""
    shutil.rmtree(dist, ignore_errors=True)
    for command in (["build", "--outdir", str(dist), str(ROOT)], ["twine", "check", "--strict"]):
        files = sorted(dist.glob("*")) if command[0] == "twine" else []
        done = run([sys.executable, "-m", *command, *files])
        print("\n".join(done.stdout.strip().splitlines()[-2:]))
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
    (source,) = dist.glob("*.tar.gz")
    with tarfile.open(source) as sdist:
        inside = {name.split("/")[1] for name in sdist.getnames() if "/" in name}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    named = {path.split("/")[1] for path in settings["sdist"]["include"]} | {"pyproject.toml", "PKG-INFO", ".gitignore"}
    assert inside <= named, f"not named in pyproject.toml: {inside - named}"
    (wheel,) = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "quadnorm/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert sum(name.endswith(".toml") for name in names) > 30, "the paper's tables"
    strange = [n for n in names if "__pycache__" in n or not n.startswith("quadnorm")]
    assert not strange, strange
    (metadata,) = (n for n in names if n.endswith(".dist-info/METADATA"))
    _, _, description = zipfile.ZipFile(wheel).read(metadata).decode().partition("\n\n")
    assert "## Install" in description
    broken = re.findall(r"\]\((?![a-z]+:|#)[^)]*\)|src(?:set)?=\"(?![a-z]+:)[^\"]*\"", description)
    assert not broken, f"a package index cannot follow {broken}"
    print(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 2**10:.0f} KiB")
    return wheel


def make_base(folder: Path, wheel: Path) -> Path:
    """An environment with the wheel and nothing else; the others begin as copies of it."""
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        install(folder, "torch")
        install(folder, str(wheel))
        (folder / "ready").touch()
    return folder


def install(folder: Path, *what: str) -> None:
    """Install into an environment with the pinned versions."""
    pins = ["-c", str(ROOT / "constraints.txt")]
    quick = ["--quiet", "--disable-pip-version-check", "--no-compile"]  # modules are compiled if they are imported
    done = run([folder / "bin/python", "-m", "pip", "install", *quick, *pins, *what])
    if done.returncode:
        sys.exit(f"cannot install {' '.join(what)}:\n{done.stderr}")


def works(name: str, base: Path, wheel: Path, folder: Path) -> bool:
    """Whether everything of one environment runs; prints what does not."""
    extras, programs, commands, tools = ENVIRONMENTS[name]
    start = time.monotonic()
    here, desk = folder / f"env-{name}", folder / f"work-{name}"
    for old in (here, desk):
        shutil.rmtree(old, ignore_errors=True)
    desk.mkdir()
    subprocess.run(["cp", "-al", str(base), str(here)], check=True)  # links: pip replaces files, never writes into them
    if extras:
        install(here, f"{wheel}[{extras}]")
    python = here / "bin/python"
    todo: list[list[str]] = [["-c", program] for program in programs]
    todo += [["-m", "quadnorm", *command.split()] for command in commands]
    todo += [["-m", *tool] for tool in tools]
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    own = {"QUADNORM_CACHE": str(desk / "cache"), "TRITON_INTERPRET": "1", "MPLBACKEND": "agg"}
    failed = []
    for arguments in todo:
        done = run([python, *arguments], cwd=desk, env=clean | own)
        if done.returncode:
            failed.append(arguments)
            print(f"[{name}] {' '.join(arguments)[:300]}\n{done.stderr[-1500:]}")
    if name == "none":  # the command line without its packages: one line that says what to install
        done = run([python, "-m", "quadnorm", "doctor"], cwd=desk, env=clean)
        if done.returncode != 2 or "quadnorm[bench]" not in done.stderr or done.stderr.count("\n") != 1:
            failed.append(["doctor"])
            print(f"[none] expected one line that names the extra bench, got:\n{done.stdout}{done.stderr}")
    total = len(todo) + (name == "none")
    seconds = time.monotonic() - start
    print(f"{name:7s} {total - len(failed)} of {total} run, {seconds:.0f} s with the installation", flush=True)
    return not failed


if __name__ == "__main__":
    sys.exit(main())
