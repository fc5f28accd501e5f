"""Whole networks: how errors of single layers add up, and how they are bounded."""
