"""The paper's rule (Eq. 6)."""

from collections.abc import Sequence

from noracl.method.triggers import GrowthSettings, LayerSignal, Trigger, full, register, taken


@register("joint")
class Joint(Trigger):
    """A layer grows when effective dimension and Fisher information are both saturated.

    With ``ed_layers="any"``, as in the authors' released code, effective dimension counts as saturated in every layer
    as soon as it is in one; Fisher information then decides for each layer.
    """

    reads = ("gamma", "epsilon", "percentile", "tau_start", "cooldown", "boost", "ed_layers")
    asks = ("dimension", "fisher")

    def after_epoch(
        self, growth: GrowthSettings, signals: Sequence[LayerSignal], losses: Sequence[float], widths: Sequence[int]
    ) -> list[int]:
        """New neurons per layer: Eq. 4, which gives one where a layer's own φ is not above γφ⁰."""
        if growth.ed_layers == "any" and any(full(growth, seen) for seen in signals):
            pairs = zip(signals, widths, strict=True)
            return [self.neurons(growth, seen, width) if taken(seen) else 0 for seen, width in pairs]
        return super().after_epoch(growth, signals, losses, widths)
