"""Runs on any grid, in step with a plan.

``aligned.py``: runs that check each call against the plan, and observe it or replace it. ``steps.py``: one such call,
with its arguments at hand and the two grids. ``constant_fields.py``: constants brought to the nodes that they meet.
"""
