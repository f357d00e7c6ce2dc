"""Growth when the loss stops improving (appendix A.6.1)."""

from collections.abc import Sequence

from noracl.method.triggers import GrowthSettings, LayerSignal, Trigger, register


@register("loss")
class Plateau(Trigger):
    """Every layer grows when the loss improved by less than a share over the last epochs."""

    reads = ("loss_window", "loss_improvement", "loss_neurons", "cooldown", "boost")
    loss = True

    def after_epoch(
        self, growth: GrowthSettings, signals: Sequence[LayerSignal], losses: Sequence[float], widths: Sequence[int]
    ) -> list[int]:
        """Compare the last loss with the one ``loss_window`` epochs before."""
        past = losses[: -growth.loss_window]
        plateau = bool(past) and losses[-1] > (1 - growth.loss_improvement) * past[-1]
        return [growth.loss_neurons if plateau else 0] * len(widths)
