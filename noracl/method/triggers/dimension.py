"""Effective dimension alone (appendix A.6.1)."""

from noracl.method.triggers import Trigger, register


@register("ed")
class Dimension(Trigger):
    """A layer grows when φ > γφ⁰, the first half of Eq. 6."""

    reads = ("gamma", "epsilon", "cooldown", "boost")
    asks = ("dimension",)
