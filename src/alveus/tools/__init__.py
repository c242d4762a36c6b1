"""Memory as tools that a model calls: schemas for its server, and one call that does what it asks.

May import `memory` and all below it; agents and the command line may import this.
"""

from alveus.tools.memory_tools import MemoryTools, ToolAnswer, memory_tools
from alveus.tools.tool_schemas import Parameter, ToolSchema

__all__ = ["MemoryTools", "Parameter", "ToolAnswer", "ToolSchema", "memory_tools"]
