"""The write barrier: rules that check the items added to a set, and the quarantine."""

from __future__ import annotations

from alveus.sets.admission.quarantine import Quarantine, Quarantined
from alveus.sets.admission.rules import (
    CustomRule,
    Exact,
    Injection,
    Near,
    Recalled,
    Secrets,
    Size,
    admission_rule,
    plans,
)
from alveus.sets.admission.verdicts import Added, Candidate, Outcome, Rule, Verdict

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
