"""From several watched runs to a run on another grid: the plan, and the runs that follow it.

``plan.py`` finds out what each call is on any grid; ``follow.py`` and ``steer.py`` run the model in step with the plan:
the native run, its replay elsewhere, and the run under the training measure. ``listing.py`` says what became of a call.
"""
