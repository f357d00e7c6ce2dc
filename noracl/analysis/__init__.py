"""What the paper proves about the method (section 4) and looks for in runs (appendix A.2.2).

It builds on ``noracl.method``, which never imports from here.
"""
