"""LangGraph: a checkpointer and a store on alveus; ``pip install 'alveus[langgraph]'``."""

from importlib.util import find_spec

from alveus.errors import Unusable

if find_spec("langgraph") is None or find_spec("langgraph.checkpoint") is None:
    raise Unusable(
        "alveus.integrations.langgraph needs the package langgraph-checkpoint, which is not "
        "installed; run: pip install 'alveus[langgraph]'"
    )

from alveus.integrations.langgraph.saver import AlveusSaver
from alveus.integrations.langgraph.store import AlveusStore

__all__ = ["AlveusSaver", "AlveusStore"]
