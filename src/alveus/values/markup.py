"""The types of displays in notebooks, without the code that makes them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure
else:
    Figure = Any  # annotations can be read at run time without matplotlib

__all__ = ["Figure", "Html"]


class Html(str):
    """HTML markup. Any other `str` is escaped before it becomes a part of markup."""

    __slots__ = ()
