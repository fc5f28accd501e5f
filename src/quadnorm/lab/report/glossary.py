"""Explanations of the terms on the report page."""

GLOSSARY: dict[str, str] = {
    "relative L² error": "‖prediction − truth‖ / ‖truth‖ of a test instance, averaged over the test set, in per cent.",
    "grid, 64²": "Samples per axis. A model is trained at one grid (or a few) and tested at these and at others.",
    "native": "At the grid that the model was trained on.",
    "degradation": "The error at another grid minus the native error, in points; in brackets the factor between them.",
    "LayerNorm, InstanceNorm, …": "Norms whose means weigh all samples equally, whatever their share of the domain.",
    "QuadNorm": "The paper's norm: means are integrals, every sample weighted by its share of the domain.",
    "BlendQuadNorm": "The paper's compromise: α = 0.3 of counting and 0.7 of the integral.",
    "as trained": "The model run at the other grid with no change.",
    "anchored": "The trained model with every spatial sum tied to the measure of its training grid. No retraining.",
    "extended": "The training grid's sums are kept and the network is evaluated at the other grid's points. "
    "No retraining.",
    "run at the training grid, interpolated": "Input carried to the training grid, output interpolated back.",
    "seed": "One training run's random numbers. Methods of a study share seeds, so that their runs form pairs.",
    "± (95 % confidence interval)": "Student's interval of the mean over seeds; in some tables, as in the paper, the "
    "standard deviation instead (the caption says which).",
    "p": "Paired t-test against LayerNorm over the seeds that both have, corrected for multiple tests (Holm). Below "
    "0.05: such a difference rarely occurs by chance.",
    "bold": "The smallest error of a column, and those that a paired t-test does not distinguish from it.",
    "improvement": "1 − error/error of LayerNorm, with a bootstrap interval over seeds.",
    "Cohen's d": "Difference of the means in units of the spread over seeds: below 0.2 negligible, below 0.5 small, "
    "below 0.8 medium, else large.",
    "preset": "smoke: seconds, learns nothing. desk: minutes on two cores, coarser grids and smaller models. paper: "
    "the paper's budget.",
    "reproduced, partly, contradicted": "Reproduced: the claimed direction, an interval that excludes zero, and at "
    "least half the claimed size. Contradicted: no such effect, and an interval that excludes half the size. Partly: "
    "anything between.",
}
