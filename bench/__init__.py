"""How fast and how sharp alveus is, beside its peers; every figure it finds goes to LOG.md."""
