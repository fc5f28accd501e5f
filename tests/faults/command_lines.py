"""Command lines drawn at random from the CLI's own parameters, each run in a child. Run as a script:

    command_lines.py FOLDER SEED COUNT MINUTES

Prints, as JSON, how many were run, their exit codes, and every one that did not end as a command should: with code 0,
1 (a statement does not hold), 2 and one line, or 130.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

from quadnorm.cli.app import app
from quadnorm.problems import problem_class, problem_names
from quadnorm.training.config import TrainConfig
from tests.faults.children import Outcome, in_child

TINY = [
    *("problem.name=poisson", "problem.cache=false", "resolutions.train=9", "samples.train=4", "samples.val=2"),
    *("samples.test=2", "batch=4", "epochs=1", "threads=1"),
    *("operator.params.width=4", "operator.params.modes=2", "operator.params.layers=1"),
]
NUMBERS = ["-1", "0", "1", "2", "3", "9", "1.5", "1e-3", "1e999", "nan", "-inf", "9" * 26, "9" * 5000, "0x10", "1_0"]
TEXTS = [
    *("", " ", "x", "=", "a=b", "[", "{a: b", "[/red]", "[bold]x", "\x1b[31mred", "é→²", "\udcff", "null", "true", "~"),
    *(".", "/", "..", "no/such/file", "/dev/null", "/proc/self/mem", "folder", "file.txt", "deep.yaml", "list.yaml"),
    *("bomb.yaml", "9", "9x9", "9x9x9x9", "0x0", "-5", "900000", "a" * 5000, "2020-13-45", "&a [*a]", "!!set {x}"),
    *("!!python/object/apply:os.system [ls]", "desk", "smoke", "poisson", "demo", "best", "png", "tcp://", "--", "-"),
]
# What keeps a valid line cheap, and options whose effect is not wanted here (a browser, a cluster, hours of work).
BASE = {"train": TINY, "eval": ["run", "-r", "9"], "anchor": ["run", "-r", "9", "-o", "a.safetensors"]}
BASE |= {"audit": ["model.py:make", "-r", "9", "-r", "17", "--data", "poisson"], "data make": ["poisson", "-n", "1"]}
BASE |= {"data show": ["poisson", "-n", "1", "-r", "9", "-o", "p.png"], "data info": ["poisson"], "theory": ["--list"]}
BASE |= {"study plan": ["demo"], "study show": ["demo"], "report": ["no-records"], "data fetch": ["poisson"]}
EXPENSIVE = {"study run": ["demo", "--preset", "nonsense"]}  # always with something wrong
AVOID = {"--open", "--dask", "--help", "--figure", "--install-completion", "--show-completion"}


def prepare(folder: Path) -> None:
    """Files for the lines to stumble over, and a run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "folder").mkdir(exist_ok=True)
    (folder / "file.txt").write_text("just text\n")
    (folder / "list.yaml").write_text("- 1\n- 2\n")
    (folder / "deep.yaml").write_text("[" * 20_000)
    layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    layers += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12)]
    (folder / "bomb.yaml").write_text("\n".join(layers))
    (folder / "model.py").write_text("def make():\n    import torch\n    return torch.nn.Conv2d(1, 1, 3, padding=1)\n")
    done = in_child(["train", *TINY, "-o", "run"], folder)
    assert done.code == 0, done


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command of the CLI, with its name."""
    for name, inner in getattr(command, "commands", {}).items():
        if hasattr(inner, "commands"):
            yield from commands(inner, (*path, name))
        else:
            yield " ".join((*path, name)), inner


def settings(model: type[BaseModel] = TrainConfig, prefix: str = "") -> Iterator[str]:
    """The keys of a training config, and the parameters of its problem and operator."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from settings(inner, f"{prefix}{name}.")
        elif name != "params":
            yield prefix + name
    if not prefix:
        yield from (f"operator.params.{p}" for p in ("width", "modes", "layers", "gain", "padding", "norm", "measure"))
        yield from (f"operator.params.{p}" for p in ("heads", "slices", "projection", "period", "kernel", "nonsense"))
        yield from ("problem.params.modes", "problem.params.decay", "problem.params.placement", "nonsense.key")


SETTINGS = sorted(settings())
PARAMETERS = sorted({f.name for n in problem_names() for f in fields(problem_class(n))})


def drawn(choose: random.Random, name: str) -> str:
    """A value for an option or argument of this name."""
    if name in ("overrides", "param"):
        keys = SETTINGS if name == "overrides" else PARAMETERS
        return (
            f"{choose.choice(keys)}={choose.choice(NUMBERS + TEXTS)}" if choose.random() < 0.9 else choose.choice(TEXTS)
        )
    return choose.choice(NUMBERS if choose.random() < 0.5 else TEXTS)


def line(choose: random.Random, name: str, command: Any) -> list[str]:
    """One command line: what keeps it cheap, with one to three parameters drawn."""
    arguments = [*name.split(), *(EXPENSIVE.get(name) or BASE.get(name, []))]
    if name.startswith("bench"):
        return [*arguments, "--scale", choose.choice(["0", "-1", "nan", "x", "1e9", ""])]
    usable = [p for p in command.params if not AVOID & set(p.opts)]
    for parameter in choose.sample(usable, min(len(usable), choose.choice([1, 1, 2, 3]))):
        option = parameter.param_type_name == "option"
        if option and getattr(parameter, "is_flag", False):
            arguments.append(choose.choice([*parameter.opts, *parameter.secondary_opts]))
        elif option:
            arguments += [choose.choice(parameter.opts), drawn(choose, parameter.name)]
        elif name != "data fetch":
            arguments.append(drawn(choose, parameter.name))
    if choose.random() < 0.05:
        arguments.append(choose.choice(["--nonsense", "-Z", "extra", "--out"]))
    return arguments


def fault(result: Outcome) -> str:
    """What is wrong with the way a command ended; empty if nothing."""
    if result.signal is not None:
        return f"ended by signal {result.signal}"
    if "Traceback" in result.err + result.out:
        return "a traceback"
    if result.code not in (0, 1, 2, 130):
        return f"exit code {result.code}"
    messages = [text for text in result.err.splitlines() if text.startswith("quadnorm: ")]
    if result.code == 2 and len(messages) != 1 and "Usage" not in result.out + result.err:
        return f"{len(messages)} lines of explanation"
    return "a control character" if "\x1b[31mred" in result.out + result.err else ""


def main(folder: Path, seed: int, count: int, minutes: float) -> None:
    prepare(folder)
    choose, known = random.Random(seed), sorted(commands(typer.main.get_command(app)))
    until, codes, faults, done = time.monotonic() + 60 * minutes, {}, [], 0
    while done < count or time.monotonic() < until:
        name, command = known[done % len(known)]
        arguments = line(choose, name, command)
        result = in_child(arguments, folder)
        codes[str(result.code)] = codes.get(str(result.code), 0) + 1
        wrong = fault(result)
        if wrong:
            faults.append({"line": [a[:80] for a in arguments], "fault": wrong, "err": result.err[-600:]})
        done += 1
    print(json.dumps({"lines": done, "codes": codes, "faults": faults}))


if __name__ == "__main__":
    # What commands import on first use; nothing is run here: a kernel that has run does not survive a fork.
    import quadnorm.lab.studies.evaluate
    import quadnorm.training.run  # noqa: F401

    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
