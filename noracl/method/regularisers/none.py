"""No protection: what a network forgets by itself."""

from noracl.method.regularisers import Regulariser, register


@register("none")
class Unprotected(Regulariser):
    """Naive fine-tuning: Eq. 2 of section 3 without its penalty, in every task. Reads no setting."""
