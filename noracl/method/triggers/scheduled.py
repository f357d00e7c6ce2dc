"""Growth at set epochs (appendix A.6.1)."""

from collections.abc import Sequence

from noracl.method.triggers import GrowthSettings, Trigger, register


@register("scheduled")
class Scheduled(Trigger):
    """The same number of neurons in every layer at the epochs of a schedule, in each later task."""

    reads = ("schedule", "scheduled_neurons")

    def before_epoch(self, growth: GrowthSettings, epoch: int, widths: Sequence[int]) -> list[int]:
        """Before the epochs that the schedule names, counted from 0."""
        return [growth.scheduled_neurons if epoch in growth.schedule else 0] * len(widths)
