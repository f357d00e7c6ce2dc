"""The paper's rule (Eq. 6)."""

from noracl.method.triggers import Trigger, register


@register("joint")
class Joint(Trigger):
    """A layer grows when effective dimension and Fisher information are both saturated."""

    reads = ("gamma", "epsilon", "percentile", "tau_start", "cooldown")
    asks = ("dimension", "fisher")
