"""How values show themselves in notebooks: HTML, and pictures that need no server."""


class Html(str):
    """Markup; any other str is escaped before it becomes part of one."""

    __slots__ = ()
