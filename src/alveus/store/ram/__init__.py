"""The store promise in plain Python."""

from alveus.store.ram.store import RamStore

__all__ = ["RamStore"]
