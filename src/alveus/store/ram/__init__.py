"""A store in the memory of one process, in plain Python."""

from alveus.store.ram.store import RamStore

__all__ = ["RamStore"]
