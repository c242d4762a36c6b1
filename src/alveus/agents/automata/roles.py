"""What users give an agent: an encoder, a decoder, a reasoner and a model, as functions or objects.

The encoder makes the prompt of what was passed, the decoder reads the reply, the reasoner says
what follows from it. Each is a plain function, or an object with the method of that name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, cast

from alveus.agents.windows import Reply
from alveus.errors import EpochsSpent, InvalidInput
from alveus.llm import ChatModel
from alveus.text.messages import Message
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import counted

Phase: TypeAlias = Literal["return", "ask", "refine", "retry", "abort"]
"""What a reasoner says: the reply is the result; it is taken, and another question follows; it is
not right, and the model is told why; it is thrown away, and the same is asked again; give up."""

Answer: TypeAlias = Phase | tuple[Phase, Message | str | Exception]
"""What a reasoner answers: "return", "retry" or "abort", or ("ask", prompt), ("refine", prompt),
("abort", why)."""


PAIR = 2
"""A phase, and what is said to it."""


@dataclass(frozen=True, slots=True)
class LoopState:
    """What a reasoner judges.

    Attributes:
        epoch: How often the model was asked in this prompt, from 1.
        input: What was passed to `prompt`.
        prompt: What the model was asked.
        reply: What it answered.
        value: What the decoder made of that; None where it had feedback.
        feedback: Why the decoder could make nothing of it, in words for the model; None: it could.
    """

    epoch: int
    input: Any
    prompt: Message
    reply: Reply
    value: Any = None
    feedback: str | None = None


class Encodes(Protocol):
    """Makes prompts."""

    def encode(self, given: Any, /) -> Message | str:  # noqa: ANN401 - what the program prompts with
        """Return the prompt that says what was passed to `prompt`."""
        ...


class Decodes(Protocol):
    """Reads replies."""

    def decode(self, reply: Reply, /) -> object:
        """Return what a reply says, and perhaps set its `importance`.

        Raises:
            Unfit: It cannot be used; the message is for the model.
        """
        ...


class Reasons(Protocol):
    """Says what follows from replies."""

    def deduct(self, state: LoopState, /) -> Answer:
        """Return what is to be done after a reply."""
        ...


Encoder: TypeAlias = Encodes | Callable[[Any], Message | str]
Decoder: TypeAlias = Decodes | Callable[[Reply], object]
Reasoner: TypeAlias = Reasons | Callable[[LoopState], Answer]
Model: TypeAlias = ChatModel | Callable[[list[dict[str, str]]], str]
"""A model, or a function of messages (dicts with role and content) that returns the answer."""


def as_prompt(given: Any) -> Message | str:  # noqa: ANN401 - whatever the program prompts with
    """Return what was passed, which is a text or a message: the encoder of agents without one."""
    if not isinstance(given, Message | str):
        raise InvalidInput(
            f"a prompt without an encoder is a str or a Message, not {type(given).__name__}; pass "
            "an encoder that makes a text of it"
        )
    return given


def as_text(reply: Reply) -> str:
    """Return what the reply says: the decoder of agents without one."""
    return reply.content.content


def accept(state: LoopState) -> Answer:
    """Return what the decoder could read, or tell the model why it could not."""
    if state.feedback is None:
        return "return"
    return ("refine", f"Your answer could not be used: {state.feedback}. Answer again.")


class Epoch:
    """A reasoner that lets the model be asked so many times in one prompt, and then gives up.

    Args:
        most: How often it may be asked.
        reasoner: What says whether it is to be asked again.
    """

    def __init__(self, most: int, reasoner: Reasoner = accept) -> None:
        self.most = counted(most, "the most epochs of a prompt")
        self._deduct = called(reasoner, "deduct", "a reasoner")

    def deduct(self, state: LoopState) -> Answer:
        """Return what its reasoner says, or, where that needs one epoch too many, to give up."""
        answer = self._deduct(state)
        phase, _ = read_answer(answer)
        if phase in ("return", "abort") or state.epoch < self.most:
            return answer
        return ("abort", EpochsSpent(self.most))


def called(given: object, method: str, what: str) -> Callable[[Any], Any]:
    """Return the function that a role is: itself, or its method."""
    found = given if callable(given) else getattr(given, method, None)
    if isinstance(given, str | bytes):  # which have such methods, and are no roles
        found = None
    if not callable(found):
        raise InvalidInput(f"{what} is a function, or has a method {method}(); {given!r} is not")
    if inspect.iscoroutinefunction(found):
        raise InvalidInput(f"{what} must be a plain function, not async as {given!r} is")
    return found


def read_answer(answer: object) -> tuple[Phase, object]:
    """Return the phase that a reasoner answered, and what it says to that."""
    phase: object = answer
    said: object = None
    if isinstance(answer, tuple) and len(cast("tuple[object, ...]", answer)) == PAIR:
        phase, said = cast("tuple[object, object]", answer)
    fits = {
        "return": said is None,
        "ask": isinstance(said, Message | str),
        "refine": isinstance(said, Message | str),
        "retry": said is None,
        "abort": said is None or isinstance(said, str | Exception),
    }
    if not (isinstance(phase, str) and fits.get(phase)):
        raise InvalidInput(
            f"a reasoner answered {answer!r}; it answers 'return', 'retry' or 'abort', or "
            "('ask', prompt), ('refine', prompt) or ('abort', why)"
        )
    return cast("Phase", phase), said
