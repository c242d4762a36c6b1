"""Names and calls of other systems, for their users: re-exports and thin adapters.

One module per system. `alveus` itself never exports a name with two meanings.
"""
