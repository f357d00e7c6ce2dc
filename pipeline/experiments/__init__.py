"""Experiments: the suites of runs that the paper's sections ask for, and the stages that compute them.

``suites`` is the one place that says which runs make up which table, and which stage computes them. Nothing here
judges a result.
"""
