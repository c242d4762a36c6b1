"""Few words of many: by choosing sentences, without a model, or by asking one."""

from typing import TYPE_CHECKING

from fornix.text.summary import Summariser, Summary, Topic
from fornix.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from fornix.text.extractive_summariser import ExtractiveSummariser
    from fornix.text.model_summariser import ModelSummariser
    from fornix.text.sentence_ends import sentences, tokens

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
    __getattr__ = lazy_names(
        __name__,
        {
            "fornix.text.extractive_summariser": ("ExtractiveSummariser",),
            "fornix.text.model_summariser": ("ModelSummariser",),
            "fornix.text.sentence_ends": ("sentences", "tokens"),
        },
    )
