"""Whole networks: how errors of single layers add up, and what bounds them."""
