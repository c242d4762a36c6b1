"""The whole contract of a store, and random batches on a store beside `RamStore`."""
