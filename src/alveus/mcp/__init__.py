"""MCP: the memory of one key, for clients of the Model Context Protocol.

It is a door like the server: it checks who asks, hands on to `alveus.tools`, and shows the answer.
This is the one room that imports the package `mcp` (extra ``alveus[mcp]``).
"""
