"""The write barrier: rules that say what a set takes in, and the quarantine of what they hold."""

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
