"""The store promise in plain Python."""

from fornix.store.ram.store import RamStore

__all__ = ["RamStore"]
