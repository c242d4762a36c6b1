"""The memory of one key for clients of the Model Context Protocol (MCP).

Requests are checked, passed to `alveus.memory.memory_tools`, and answered.
Only this package imports `mcp` (extra ``alveus[mcp]``).
"""
