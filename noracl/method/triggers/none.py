"""A static network: the baselines of section 5."""

from noracl.method.triggers import Trigger, register


@register("none")
class Never(Trigger):
    """Does not grow."""
