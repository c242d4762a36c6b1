"""fornix behind the interfaces of other frameworks; each needs its package, and an extra of it.

Nothing of fornix imports these rooms. Each is a thin layer over what `fornix` gives everybody.
"""
