"""Executors run tasks: in this process, in local processes, or by Dask. All have the same signature."""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import Any

from quadnorm.lab.studies.records import Task
from quadnorm.training.interrupt import stop_requests

Work = Callable[[Task], dict[str, Any]]  # picklable; returns the outcome as plain data
Done = Callable[[Task, dict[str, Any]], None]
Executor = Callable[[Work, Sequence[Task], Done], None]

_LOOK = 0.2  # seconds between two looks at whether somebody wants the study to stop
RETRIES = 3  # how often Dask restarts a task whose worker died, from its checkpoint


def serial(work: Work, tasks: Sequence[Task], done: Done) -> None:
    """Run the tasks in this process, one after the other."""
    for task in tasks:
        done(task, work(task))


def processes(workers: int) -> Executor:
    """Local processes, each with one task at a time. If one dies, the study stops (with Dask it would continue)."""

    def run(work: Work, tasks: Sequence[Task], done: Done) -> None:
        unfinished = {task.key: task for task in tasks}
        try:
            _pool(workers, work, unfinished, done)
        except BrokenProcessPool:
            raise OSError(
                f"a worker process died (out of memory?); {len(unfinished)} runs are unfinished and resume from their "
                "checkpoints when the study is run again, perhaps with fewer --workers; --dask replaces workers"
            ) from None

    return run


def _pool(workers: int, work: Work, unfinished: dict[str, Task], done: Done) -> None:
    # Spawned, not forked: a fork of a process with torch threads may hang.
    context = multiprocessing.get_context("spawn")
    # A signal sets a flag here. An exception at any moment would meet the pool while it starts or ends its processes.
    with stop_requests() as asked_to_stop:
        with _children_deaf():
            stop = context.Event()  # starts the tracker of resources, which unblocks SIGINT here
        with _children_deaf():
            pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare, initargs=(stop,))
            futures = {pool.submit(_unless_stopped, work, task): task for task in unfinished.values()}
        with pool:
            try:
                _collect(futures, unfinished, done, asked_to_stop)
            except BaseException:
                # No further task is begun, not even those that workers have already fetched; running ones save and
                # stop.
                stop.set()
                running = list((pool._processes or {}).values())
                pool.shutdown(wait=False, cancel_futures=True)
                for process in running:
                    process.terminate()
                raise


def _collect(
    futures: dict[Any, Task], unfinished: dict[str, Task], done: Done, asked_to_stop: Callable[[], bool]
) -> None:
    waiting = set(futures)
    while waiting:
        finished, waiting = wait(waiting, timeout=_LOOK, return_when=FIRST_COMPLETED)
        for future in finished:
            done(futures[future], future.result())
            unfinished.pop(futures[future].key)
        if asked_to_stop():
            raise KeyboardInterrupt


@contextmanager
def _children_deaf() -> Iterator[None]:
    """Let processes that are started here not hear Ctrl-C and a closed terminal, which signal a whole group.

    The main process tells workers to stop; Python's tracker of shared resources, which ends last, ignores only other
    signals.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_PR_SET_PDEATHSIG = 1  # Linux: prctl option that sends a process a signal when its parent ends for any reason
_stop: Any = None  # in a worker process: the event that is set when the study is stopped


def _prepare(stop: Any) -> None:
    global _stop
    _stop = stop
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if hasattr(signal, "pthread_sigmask"):  # inherited already, unless Python has started the process in another way
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process as soon as its parent ends; checkpoints are complete at any moment, so nothing is lost."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _unless_stopped(work: Work, task: Task) -> dict[str, Any]:
    if _stop.is_set():
        raise KeyboardInterrupt
    return work(task)


def dask(scheduler: str | None, workers: int) -> Executor:
    """Dask: the cluster at ``scheduler`` (tcp://…), or a local one of ``workers`` processes if it is None.

    A lost worker's task is run again elsewhere, from its checkpoint; workers must see the same results folder.
    """

    def run(work: Work, tasks: Sequence[Task], done: Done) -> None:
        try:
            import distributed
        except ImportError as error:
            raise ImportError("the Dask executor needs distributed: pip install 'quadnorm[dist]'") from error
        cluster: Any = distributed  # untyped
        local = None
        if scheduler is None:
            local = cluster.LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
            )
        try:
            with cluster.Client(local or scheduler, timeout="20s") as client:
                futures = [client.submit(work, task, key=f"quadnorm-{task.key}", retries=RETRIES) for task in tasks]
                known = {future.key: task for future, task in zip(futures, tasks, strict=True)}
                for future in cluster.as_completed(futures):
                    done(known[future.key], future.result())
        finally:
            if local is not None:
                # All results are in. On a busy machine idle workers may not end within Dask's four seconds; its warning
                # that it kills them is of no use.
                logging.getLogger("distributed.nanny").setLevel(logging.ERROR)
                local.close()

    return run
