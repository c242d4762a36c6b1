"""LangGraph: a checkpointer and a store on a fornix memory; ``pip install 'fornix[langgraph]'``."""

from importlib.util import find_spec

from fornix.errors import Unusable

if find_spec("langgraph") is None or find_spec("langgraph.checkpoint") is None:
    raise Unusable(
        "fornix.integrations.langgraph needs the package langgraph-checkpoint, which is not "
        "installed; run: pip install 'fornix[langgraph]'"
    )

from fornix.integrations.langgraph.saver import FornixSaver
from fornix.integrations.langgraph.store import FornixStore

__all__ = ["FornixSaver", "FornixStore"]
