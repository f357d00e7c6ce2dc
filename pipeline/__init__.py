"""The paper as a pipeline, from data to verdict: data → runs → experiments → evidence → report, and a check of it all.

Each folder uses those before it, never those after. ``python -m pipeline --help`` lists the stages. What decides a
number of a run lives in ``noracl``; nothing here may.
"""

import warnings

warnings.filterwarnings("ignore", message=r".* hardly move the weights|inputs reach ")  # the settings are the paper's
