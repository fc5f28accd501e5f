"""Beyond the paper: anchoring, quadrature in every sum, and what a careful user would do instead."""

from dataclasses import replace

from quadnorm.lab.studies.catalog.fno.gap import EXTREME
from quadnorm.lab.studies.catalog.parts import (
    BLEND,
    GALERKIN_MODE,
    LAYER,
    PICTURED,
    QUAD,
    desk,
    seeds,
    variant,
)
from quadnorm.lab.studies.study import AS_TRAINED, NATIVE, TRANSFER, TRANSFERRED, Desk, Method, Study, Variant, Way

ANCHOR_NORMS = Way("anchor-norms", "norms anchored", "anchored", "norms")
ANCHOR_KERNELS = Way("anchor-kernels", "other sums anchored", "anchored", "kernels")
NATIVE_FOURIER = Way("native-fourier", f"{NATIVE.label}, zero-padded", "native", "fourier")
BILINEAR, BICUBIC = (Way(f"interpolate-{m}", f"F.interpolate, {m}", "interpolate", m) for m in ("bilinear", "bicubic"))
CROP_PAD = Way("crop-pad", "fixed band, cropped and padded", "crop-pad")

_RESOLUTIONS = (32, 64, 128, 256)


_ATTENTION_ROWS = ("LayerNorm", "QuadNorm", "quadrature everywhere")


def _models(*labels: str, name: str = "fno") -> Variant:
    """Some of the models of extreme-crossres: the same configs, so the same records, at every preset."""
    kept = tuple(EXTREME.method(label) for label in labels)
    return replace(EXTREME, name=name, methods=kept, desk=replace(EXTREME.desk, methods=labels))


def _attention(operator: str, methods: tuple[Method, ...]) -> Variant:
    return variant("darcy", operator, methods, 32, _RESOLUTIONS, desk(operator, 32), name=operator, readings=False)


def _everywhere(operator: str, rows: tuple[str, ...], kernel: dict[str, str]) -> Variant:
    """The same operator with counting sums, with quadrature in the norms, and with quadrature in every sum."""
    sums = {"measure": "trapezoid", **kernel}
    methods = (
        LAYER,
        QUAD,
        Method("quadrature everywhere", "quad", sums, printed=None),
        Method("quadrature everywhere, instance mode", "quad:instance", sums, printed=None),
    )
    budget = desk(operator, 32, rows)
    return variant("darcy", operator, methods, 32, _RESOLUTIONS, budget, name=operator, readings=False)


STUDIES = (
    Study(
        name="anchored-crossres",
        title="Trained models made resolution-consistent without retraining, Darcy, 32² to 256²",
        theme="ours",
        variants=(
            _models("None", "LayerNorm", "InstanceNorm", "QuadNorm"),
            _attention("galerkin", (LAYER,)),
            _attention("transolver", (LAYER,)),
        ),
        seeds=seeds(10),
        evaluations=(AS_TRAINED, ANCHOR_NORMS, ANCHOR_KERNELS, *TRANSFER[1:]),
        notes=(
            "Anchoring keeps every spatial sum at the measure of the training grid; at 32² all ways agree.",
            "The FNO models are those of extreme-crossres; only the attention models are trained for this study.",
        ),
    ),
    Study(
        name="quadrature-everywhere",
        title="Trained with quadrature in the norms only and in every spatial sum, Darcy, 32² to 256²",
        theme="ours",
        variants=(
            _everywhere("fno", (), {"kernel": "quadrature"}),
            _everywhere("galerkin", _ATTENTION_ROWS, {}),
            _everywhere("transolver", _ATTENTION_ROWS, {}),
        ),
        seeds=seeds(10),
        notes=(
            "Layer mode is what a user of LayerNorm would change to; instance mode is the paper's QuadNorm.",
            GALERKIN_MODE,
        ),
    ),
    Study(
        name="transfer-baselines",
        title="Anchoring beside a run at the training grid, fixed band, multi-resolution training, Darcy, 32² to 256²",
        theme="ours",
        variants=(
            _models("LayerNorm", "InstanceNorm", "QuadNorm"),
            variant(
                "darcy",
                "fno",
                (LAYER, QUAD),
                (32, 64),
                _RESOLUTIONS,
                replace(EXTREME.desk, methods=()),
                name="multi-resolution",
                readings=False,
            ),
        ),
        seeds=seeds(10),
        evaluations=(*TRANSFER, NATIVE_FOURIER, CROP_PAD),
        notes=(
            "Running at the training grid is the best simple way: on smooth outputs over nested grids it is as good.",
        ),
    ),
    Study(
        name="rollout",
        title="Rollouts of 20 and 50 steps on finer and coarser grids: FNO on periodic Navier–Stokes, trained at 64²",
        theme="ours",
        variants=(
            variant(
                "navier-stokes-steps",
                "fno",
                (LAYER,),
                64,
                (32, 48, 64, 128, 256),
                Desk(epochs=60, train=200, val=20, test=10, coarsen=2, width=0.75, lr=1e-3, batch=10),
                name="fno",
                readings=False,
                last_activation=False,
            ),
        ),
        seeds=seeds(3),
        evaluations=tuple(
            way if steps == 1 else way.rolled(steps)
            for steps in (1, 20, 50)
            for way in (*TRANSFER, TRANSFERRED, BILINEAR, BICUBIC)
        ),
        notes=(
            "A step is 0.25 time units; rollouts begin at time 2, training pairs at 50 times from there on.",
            "As trained, anchored, extended and transferred, the model runs on its own output on the test grid; run at "
            "the training grid and F.interpolate roll out there and take only the last state to the test grid.",
        ),
    ),
    Study(
        name="demo",
        title="What each norm does from 33² to 257², and the same models transferred after training: FNO on Darcy",
        theme="ours",
        variants=(
            variant(
                "darcy",
                "fno",
                (LAYER, QUAD, BLEND),
                33,
                (33, 65, 129, 257),
                Desk(epochs=30, train=200, test=20, width=0.75),
                name="fno",
                readings=False,
                last_activation=False,
            ),
        ),
        seeds=seeds(3),
        evaluations=(AS_TRAINED, TRANSFERRED, NATIVE),
        pictured=PICTURED,
        notes=("The desk preset has one seed by default, which gives no statistics; for these use --seeds 3.",),
        desk_seeds=1,
    ),
)
