"""Few words of many: by choosing sentences, without a model, or by asking one."""

from fornix.text.extractive_summariser import ExtractiveSummariser
from fornix.text.model_summariser import ModelSummariser
from fornix.text.sentences import sentences, tokens
from fornix.text.summary import Summariser, Summary, Topic

__all__ = [
    "ExtractiveSummariser",
    "ModelSummariser",
    "Summariser",
    "Summary",
    "Topic",
    "sentences",
    "tokens",
]
