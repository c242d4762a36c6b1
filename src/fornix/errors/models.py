"""What goes wrong with language models, and with what they are to be told."""

from __future__ import annotations

from fornix.errors.root import FornixError, LimitReached, Unusable


class BudgetTooSmall(LimitReached):
    """What a prompt always holds has more tokens than the whole prompt may have.

    Attributes:
        budget, fixed: How many tokens it may have, and how many that part has.
    """

    def __init__(self, budget: int, fixed: int, *, with_calls: bool = False) -> None:
        self.budget, self.fixed = budget, fixed
        part = "the instructions and the prompt itself"
        if with_calls:
            part = "the instructions, the prompt, and the rounds of tool calls that it answers"
        super().__init__(
            f"the budget of {budget} tokens is smaller than the fixed part ({fixed}): {part}; "
            "raise the budget, or shorten those"
        )


class ModelMissing(Unusable):
    """The package, or the key, that a language model needs is not there; nothing was asked."""


class ModelClosed(Unusable):
    """A language model was asked after its close."""


class TemplatesMissing(Unusable):
    """The package that renders the templates of prompts is not installed."""


class ScriptEnded(Unusable):
    """A `ScriptedChat` was asked once more than it has answers.

    Attributes:
        answers: How many it had.
    """

    def __init__(self, name: str, *, answers: int) -> None:
        self.name, self.answers = name, answers
        super().__init__(
            f"ScriptedChat {name!r} has given all of its {answers} answers and was asked again; "
            "look at its `asked`, and give it more answers, or a function"
        )


class ModelFailed(FornixError):
    """A language model did not answer, or not usably.

    Messages hold neither keys nor what was said to the model; what a server said stays in
    ``__cause__``.

    Attributes:
        model: Its name.
        problem: What is wrong, in words that may be shown to it.
    """

    def __init__(self, model: str, problem: str) -> None:
        self.model, self.problem = model, problem
        super().__init__(f"model {model!r}: {problem}")


class ModelUnavailable(ModelFailed):
    """A language model cannot be reached, is overloaded, or took too long; try again later.

    Attributes:
        status: Of its HTTP answer, if there was one.
        retry_after_s: How long it asked to be left alone, if it did.
    """

    def __init__(
        self,
        model: str,
        problem: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.status, self.retry_after_s = status, retry_after_s
        super().__init__(model, problem)


class ModelRefused(ModelFailed):
    """A language model turned a request down; the same request will be turned down again.

    Attributes:
        status: Of its HTTP answer; None: it was the model that refused.
    """

    def __init__(self, model: str, problem: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(model, problem)


class ModelAnswerInvalid(ModelFailed):
    """A language model answered, with something that cannot be used."""
