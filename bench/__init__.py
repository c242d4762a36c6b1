"""How fast and how sharp fornix is, beside its peers; every figure it finds goes to LOG.md."""
