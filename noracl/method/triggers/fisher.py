"""Fisher saturation alone (appendix A.6.1)."""

from noracl.method.triggers import GrowthSettings, LayerSignal, Trigger, register


@register("fsat")
class FisherSaturation(Trigger):
    """A layer grows when Percentile(F, p) > τ, the second half of Eq. 6."""

    reads = ("gamma", "epsilon", "percentile", "tau_start", "fsat_neurons", "cooldown", "boost")
    asks = ("fisher",)

    def neurons(self, growth: GrowthSettings, seen: LayerSignal, width: int) -> int:
        """The fixed number, or as many as Eq. 4 says: effective dimension decides nothing else here."""
        return growth.fsat_neurons or super().neurons(growth, seen, width)
