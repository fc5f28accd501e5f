"""PDE problems: each instance is a continuous function that can be sampled at every resolution."""

from dataclasses import fields
from importlib import import_module
from typing import Any

from quadnorm._load import from_file, names_file, source_hash
from quadnorm._suggest import unknown
from quadnorm.measures import PLACEMENTS
from quadnorm.problems.base import Problem
from quadnorm.problems.labelled import on_array

__all__ = ["PLACEMENTS", "Problem", "on_array", "problem", "problem_names"]

# name: (module, class). A module is imported only when its problem is used.
_PROBLEMS = {
    "darcy": ("pdes.darcy", "Darcy"),
    "helmholtz": ("pdes.helmholtz", "Helmholtz"),
    "poisson": ("pdes.poisson", "Poisson"),
    "reaction-diffusion": ("pdes.reaction_diffusion", "ReactionDiffusion"),
    "elasticity": ("pdes.elasticity", "Elasticity"),
    "varcoeff": ("pdes.varcoeff", "VarCoeff"),
    "darcy-official": ("pdes.darcy_official", "DarcyOfficial"),
    "darcy-neuralop": ("stored.neuralop", "DarcyNeuralop"),
    "darcy-pdebench": ("stored.pdebench", "DarcyPdebench"),
    "files": ("stored.files", "Files"),
    "cavity": ("pdes.cavity", "Cavity"),
    "navier-stokes": ("pdes.navier_stokes", "NavierStokes"),
    "navier-stokes-steps": ("pdes.navier_stokes", "NavierStokesSteps"),
    "burgers": ("pdes.burgers", "Burgers"),
    "burgers-2d": ("pdes.burgers", "Burgers2d"),
    "poisson-mesh": ("meshes.poisson", "PoissonMesh"),
    "elasticity-mesh": ("meshes.elasticity", "ElasticityMesh"),
}
# From Python only: its parameters are objects, which no config and no command line can hold.
_OBJECTS = {"arrays": ("stored.arrays", "Arrays")}


def problem_names() -> list[str]:
    """The names that a config may give :func:`problem`; from Python it knows ``arrays`` too."""
    return list(_PROBLEMS)


def problem_class(name: str) -> type[Problem]:
    """The class of a problem: by name, or as FILE.py:CLASS from your own file, which is run."""
    if names_file(str(name)):
        return _own_class(str(name))
    place = (_PROBLEMS | _OBJECTS).get(str(name).lower().replace("_", "-"))
    if place is None:
        raise ValueError(unknown("problem", name, _PROBLEMS))
    module, cls = place
    loaded: type[Problem] = getattr(import_module(f"quadnorm.problems.{module}"), cls)
    return loaded


def problem(name: str, **parameters: Any) -> Problem:
    """A problem by name, with its parameters as keyword arguments.

    >>> p = problem("poisson")
    >>> x, y = p.sample(range(2), resolution=33, seed=0)
    >>> x.shape, y.shape, p.placement
    (torch.Size([2, 1, 33, 33]), torch.Size([2, 1, 33, 33]), 'endpoint')

    ``"my.py:Heat"`` means the class Heat, a subclass of :class:`Problem`, in your file my.py, which is run.
    """
    cls = problem_class(name)
    known = [f.name for f in fields(cls) if f.init]
    for given in parameters:
        if given not in known:
            raise TypeError(f"{cls.name}: " + unknown("parameter", given, known))
    return cls(**parameters)


def _own_class(text: str) -> type[Problem]:
    """The problem class that FILE.py:CLASS names.

    Its samples are cached under the hash of the file, so that a changed file gets new samples.
    """
    cls = from_file(text, "a class of problems (quadnorm.problems.Problem)")
    if not (isinstance(cls, type) and issubclass(cls, Problem)):
        raise ValueError(f"{text} is not a problem class; derive it from quadnorm.problems.Problem")
    missing = sorted(cls.__abstractmethods__) + [n for n in ("name", "inputs", "outputs") if not hasattr(cls, n)]
    if missing:
        raise ValueError(f"{text}: the class lacks {', '.join(missing)}; see quadnorm.problems.Problem")
    if cls.source is None:
        cls.source = source_hash(text)
    return cls
