"""Independent jobs on several threads: the heavy calls (FFTs, compiled loops, matrix products) release the GIL."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor


def run(jobs: Sequence[Callable[[], None]], workers: int = 1) -> None:
    """Run every job, at most ``workers`` at a time; the first error of a job is raised."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ValueError(f"workers must be a positive int, the number of threads; got {workers!r}")
    if workers == 1 or len(jobs) < 2:
        for job in jobs:
            job()
        return
    with ThreadPoolExecutor(min(workers, len(jobs))) as pool:
        for done in [pool.submit(job) for job in jobs]:
            done.result()
