"""The types of what values show themselves as in notebooks, without what makes it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure
else:
    Figure = Any  # what reads annotations at run time finds the name without matplotlib

__all__ = ["Figure", "Html"]


class Html(str):
    """Markup; any other str is escaped before it becomes part of one."""

    __slots__ = ()
