"""Fixed growth per task (appendix A.6.1)."""

from collections.abc import Sequence

from noracl.method.triggers import GrowthSettings, Trigger, register


@register("fixed")
class Fixed(Trigger):
    """The same number of neurons in every layer at the start of each later task."""

    reads = ("fixed_neurons",)

    def before_epoch(self, growth: GrowthSettings, epoch: int, widths: Sequence[int]) -> list[int]:
        """Before the first epoch only."""
        return [growth.fixed_neurons if epoch == 0 else 0] * len(widths)
