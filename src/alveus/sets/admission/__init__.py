"""The write barrier: rules that check the items added to a set, and the quarantine."""

from __future__ import annotations

from alveus.sets.admission.barrier import Quarantine, Quarantined
from alveus.sets.admission.rules import (
    Added,
    Candidate,
    CustomRule,
    Exact,
    Injection,
    Near,
    Outcome,
    Recalled,
    Rule,
    Secrets,
    Size,
    Verdict,
    admission_rule,
    plans,
)

__all__ = [
    "Added",
    "Candidate",
    "CustomRule",
    "Exact",
    "Injection",
    "Near",
    "Outcome",
    "Quarantine",
    "Quarantined",
    "Recalled",
    "Rule",
    "Secrets",
    "Size",
    "Verdict",
    "admission_rule",
    "plans",
]
