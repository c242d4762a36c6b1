"""Facts: learned from messages once, with their sources; a learning can be undone as one step."""

from typing import TYPE_CHECKING

from alveus.values.lazy import lazy_names

if TYPE_CHECKING:
    from alveus.facts.entities import EntityPage, EntityProfile
    from alveus.facts.fact import (
        Fact,
        FactOrigin,
        FactProblem,
        Learning,
        LearningCost,
        LearnReport,
        Quotation,
    )
    from alveus.facts.facts import Facts, facts_of_key
    from alveus.facts.learning import LearnOptions, Source, learn

__all__ = [
    "EntityPage",
    "EntityProfile",
    "Fact",
    "FactOrigin",
    "FactProblem",
    "Facts",
    "LearnOptions",
    "LearnReport",
    "Learning",
    "LearningCost",
    "Quotation",
    "Source",
    "facts_of_key",
    "learn",
]

if not TYPE_CHECKING:  # otherwise any name would be an attribute of the package
    __getattr__ = lazy_names(__name__)
