"""alveus behind the interfaces of other frameworks; each needs its package, and an extra of it.

Nothing of alveus imports these rooms. Each is a thin layer over the public calls of `alveus`.
"""
