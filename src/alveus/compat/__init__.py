"""Names and calls of other systems, for their users: re-exports and thin adapters.

One module per system. Names that mean something else in another one are never in `alveus` itself.
"""
