"""The store promise in plain Python."""

from fornix.stores.ram.store import OP_RETENTION, RamStore

__all__ = ["OP_RETENTION", "RamStore"]
