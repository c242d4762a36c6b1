"""Summaries of texts, from chosen sentences or by a language model."""

from typing import TYPE_CHECKING

from alveus.text.summary import Summariser, Summary, Topic
from alveus.values.lazy import lazy_names

if TYPE_CHECKING:
    from alveus.text.extractive_summariser import ExtractiveSummariser
    from alveus.text.model_summariser import ModelSummariser
    from alveus.text.statements import sentences, tokens

__all__ = [
    "ExtractiveSummariser",
    "ModelSummariser",
    "Summariser",
    "Summary",
    "Topic",
    "sentences",
    "tokens",
]

if not TYPE_CHECKING:  # else any name would be one of the package
    __getattr__ = lazy_names(__name__)
