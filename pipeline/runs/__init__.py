"""Runs: one method on one stream with one seed; what decides it, how it is computed, kept and found again.

Nothing here knows which runs make up an experiment, or what their results mean.
"""
