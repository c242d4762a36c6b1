"""`python -m bench [NAME] ...`, NAME being one of `PROGRAMS`; without it, it is `store`."""

import sys

from bench import (
    context,
    dialogue,
    growth,
    layers,
    lifecycle,
    ranges,
    retrieval,
    runs,
    state,
    store,
    stores,
)

PROGRAMS = {
    "store": store.main,
    "stores": stores.main,
    "retrieval": retrieval.main,
    "state": state.main,
    "runs": runs.main,
    "lifecycle": lifecycle.main,
    "layers": layers.main,
    "context": context.main,
    "dialogue": dialogue.main,
    "growth": growth.main,
    "ranges": ranges.main,
}

if __name__ == "__main__":
    chosen, *rest = (
        sys.argv[1:] if sys.argv[1:2] and sys.argv[1] in PROGRAMS else ["store", *sys.argv[1:]]
    )
    sys.exit(PROGRAMS[chosen](rest))
