"""The order of the gallery: from the idea to the tools."""

ORDER = (
    "plot_leak_1d.py", "plot_weights_on_grids.py", "plot_train_and_look.py", "plot_ways.py",
    "plot_padded_fno.py", "plot_neuralop_fno.py", "plot_audit.py", "plot_learned_alpha.py",
    "plot_voronoi.py", "plot_mesh_weights.py", "plot_sphere.py", "plot_latlon_fno.py", "plot_ocean_mask.py",
    "plot_sharded.py",
)  # fmt: skip


class Order:
    """A sort key for sphinx-gallery; a script that is not listed comes last."""

    def __init__(self, folder: object) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        """Where a script stands."""
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)

    def __repr__(self) -> str:
        return "Order()"  # part of the configuration that decides whether pages are built again
