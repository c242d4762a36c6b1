"""Names and calls of other systems, for their users: adapters without logic of their own.

One module per system. Names that mean something else in another one are never in `alveus` itself.
"""
