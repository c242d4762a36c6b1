"""Storable values, their wire form, ids, dates, words; no I/O."""
