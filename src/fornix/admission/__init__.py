"""The write barrier: rules that say what a set takes in, and the quarantine of what they hold."""

from __future__ import annotations

from fornix.admission.duplicates import Exact, Near
from fornix.admission.kept import Rule
from fornix.admission.quarantine import Quarantine, Quarantined
from fornix.admission.rules import (
    Injection,
    Own,
    Recalled,
    Secrets,
    Size,
    admission_rule,
    plans,
)
from fornix.admission.verdicts import Added, Candidate, Outcome, Verdict

__all__ = [
    "Added",
    "Candidate",
    "Exact",
    "Injection",
    "Near",
    "Outcome",
    "Own",
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
