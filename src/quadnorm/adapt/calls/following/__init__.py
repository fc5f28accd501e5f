"""Runs on other grids, in step with a plan: each call is met before it is made."""
