"""The store promise in plain Python."""

from fornix.stores.ram.store import RamStore

__all__ = ["RamStore"]
