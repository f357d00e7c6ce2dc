"""The method, section 3 of the paper: everything that decides a number of a run, as pure functions and small classes.

No files, no configuration and no printing belong here, and nothing here knows a benchmark.
"""
