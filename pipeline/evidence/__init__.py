"""Evidence: results, read in one place, and the verdicts that follow from them.

``results`` is the only reader of reports/results. ``verdicts`` judges cells against the paper's numbers, ``intervals``
judges statements against intervals over seeds; no other rule decides anything. Nothing here computes runs or draws.
"""
