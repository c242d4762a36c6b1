"""Few words of many: by choosing sentences, without a model, or by asking one."""

from fornix.summarise.by_model import ModelSummariser
from fornix.summarise.extractive import ExtractiveSummariser
from fornix.summarise.sentences import sentences, tokens
from fornix.summarise.summary import Summariser, Summary, Topic

__all__ = [
    "ExtractiveSummariser",
    "ModelSummariser",
    "Summariser",
    "Summary",
    "Topic",
    "sentences",
    "tokens",
]
