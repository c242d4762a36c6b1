"""The cycle of an agent as an action, and the functions that users pass to the agent.

The encoder makes the prompt, the model answers, the decoder reads the reply, and the reasoner
decides the next step. Each is a plain function, or an object with a method: `encode`, `complete`,
`decode` or `deduct`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol, TypeAlias, cast

from alveus.agents.automata.tools import ToolCall, ToolResult, Tools, read_result
from alveus.agents.windows import ContextMemory, Input, Observation, Outcome, Reply, Stamp
from alveus.errors import EpochsSpent, InvalidInput, ModelAnswerInvalid, PromptAborted
from alveus.llm import ChatModel, Unfit, said_by
from alveus.runs.agent import Agent, action
from alveus.runs.durable_calls import Durable
from alveus.runs.task import RunnerContext
from alveus.text.messages import Message
from alveus.values.events import Event, OutputEvent
from alveus.values.lazy_dataclass import dataclass
from alveus.values.retries import Retry
from alveus.values.storable import checked_number, counted

Phase: TypeAlias = Literal["return", "ask", "refine", "retry", "abort"]
"""The verdict of a reasoner on a reply.

"return": return the reply. "ask": keep the reply, and ask another question. "refine": reject the
reply, and ask again with a reason. "retry": discard the reply, and repeat the question. "abort":
abort the prompt.
"""

Answer: TypeAlias = Phase | tuple[Phase, Message | str | Exception]
"""The answer of a reasoner: "return", "retry" or "abort"; or ("ask", prompt), ("refine", prompt) or
("abort", why)."""


PAIR = 2
"""The length of an answer with a prompt or a reason."""


@dataclass(frozen=True, slots=True)
class LoopState:
    """The state of a prompt that a reasoner judges.

    Attributes:
        epoch: The number of the model's call in this prompt, from 1.
        input: The argument of `prompt`.
        prompt: The message to the model.
        reply: The reply of the model.
        value: The result of the decoder, or None if the decoder could not read the reply.
        feedback: Why the decoder could not read the reply, in words for the model. None means that
            it could.
    """

    epoch: int
    input: Any
    prompt: Message
    reply: Reply
    value: Any = None
    feedback: str | None = None


class Encodes(Protocol):
    """An encoder, which makes prompts."""

    def encode(self, given: Any, /) -> Message | str:  # noqa: ANN401 - any value of the program
        """Return the message for an argument of `prompt`."""
        ...


class Decodes(Protocol):
    """A decoder, which reads replies."""

    def decode(self, reply: Reply, /) -> object:
        """Return the value of a reply. A decoder may also set the reply's `importance`.

        Raises:
            Unfit: The reply cannot be used. The message of the error is for the model.
        """
        ...


class Reasons(Protocol):
    """A reasoner, which judges replies."""

    def deduct(self, state: LoopState, /) -> Answer:
        """Return the verdict on a reply."""
        ...


Encoder: TypeAlias = Encodes | Callable[[Any], Message | str]
Decoder: TypeAlias = Decodes | Callable[[Reply], object]
Reasoner: TypeAlias = Reasons | Callable[[LoopState], Answer]
Model: TypeAlias = ChatModel | Callable[[list[dict[str, str]]], str]
"""A model, or a function of messages (dicts with role and content) that returns the answer."""


def as_prompt(given: Any) -> Message | str:  # noqa: ANN401 - whatever the program prompts with
    """Return the argument, which must be a text or a message. This is the default encoder."""
    if not isinstance(given, Message | str):
        raise InvalidInput(
            f"a prompt must be a str or a Message, not {type(given).__name__}; for other "
            "prompts, give the agent an encoder"
        )
    return given


def as_text(reply: Reply) -> str:
    """Return the text of a reply. This is the default decoder."""
    return reply.content.content


def accept(state: LoopState) -> Answer:
    """Accept a decoded reply, or ask again with the decoder's feedback: the default reasoner."""
    if state.feedback is None:
        return "return"
    return ("refine", f"Your answer could not be used: {state.feedback}. Answer again.")


class Epoch:
    """A reasoner that aborts a prompt after *most* calls of the model.

    Args:
        most: The most calls.
        reasoner: Judges the replies.
    """

    def __init__(self, most: int, reasoner: Reasoner = accept) -> None:
        self.most = counted(most, "the most epochs of a prompt")
        self._deduct = called(reasoner, "deduct", "a reasoner")

    def deduct(self, state: LoopState) -> Answer:
        """Return the verdict of the reasoner. Abort if the verdict needs more than *most* calls."""
        answer = self._deduct(state)
        phase, _ = read_answer(answer)
        if phase in ("return", "abort") or state.epoch < self.most:
            return answer
        return ("abort", EpochsSpent(self.most))


def called(given: object, method: str, what: str) -> Callable[[Any], Any]:
    """Return *given* if it can be called, or else its method with the name *method*.

    Raises:
        InvalidInput: Neither can be called, or the function is async.
    """
    found = given if callable(given) else getattr(given, method, None)
    if isinstance(given, str | bytes):  # strings have such methods, but are not roles
        found = None
    if not callable(found):
        raise InvalidInput(
            f"{what} must be a function or an object with a method {method}(), not {given!r}"
        )
    if inspect.iscoroutinefunction(found):
        raise InvalidInput(f"{what} must be a plain function, but {given!r} is async")
    return found


def read_answer(answer: object) -> tuple[Phase, object]:
    """Return the phase of a reasoner's answer, and the prompt or the reason in it, or None."""
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
            "a reasoner must return 'return', 'retry' or 'abort', or ('ask', prompt), "
            f"('refine', prompt) or ('abort', reason), not {answer!r}"
        )
    return cast("Phase", phase), said


OUTCOMES: dict[Phase, Outcome] = {
    "return": "accepted",
    "ask": "accepted",
    "refine": "rejected",
    "retry": "rejected",
    "abort": "aborted",
}
"""The outcome of a reply, by the reasoner's phase."""


class Prompted(Event):
    """The event of a prompt.

    Attributes:
        given: The argument of `prompt`. A message is stored as a dict.
        name: The name of the prompt. Prompts with the same name are the same prompt.
        is_message: True if the argument was a `Message`.
        once: True to purge the window first.
    """

    given: Any
    name: str
    is_message: bool = False
    once: bool = False

    @classmethod
    def of(cls, given: object, name: str, *, once: bool) -> Prompted:
        """Return the event of a call of `prompt`."""
        if isinstance(given, Message):
            return cls(given.to_dict(), name, is_message=True, once=once)
        return cls(given, name, once=once)

    @property
    def passed(self) -> object:
        """The argument of `prompt`, as the caller passed it."""
        return Message.from_dict(self.given) if self.is_message else self.given


@dataclass(slots=True)
class End:
    """The end of a prompt.

    Attributes:
        value: The result of the decoder.
        error: Why the prompt was aborted. None means that the reply was accepted.
    """

    reply: Reply
    value: Any = None
    error: Exception | None = None

    def plain(self) -> dict[str, Any]:
        """Return the end as the output of the run, which is stored."""
        made = {"reply": self.reply.content.to_dict(), "importance": self.reply.importance}
        return made if self.error is None else made | {"aborted": str(self.error)}


@dataclass(slots=True)
class Waiting:
    """A caller in this process that waits for a prompt.

    Attributes:
        end: The end of the prompt, with the decoded value.
        error: The error of the prompt.
        is_cancelled: True if the call was interrupted.
    """

    end: End | None = None
    error: Exception | None = None
    is_cancelled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """The parts of an agent, as functions."""

    model: Callable[[list[dict[str, str]]], object]
    model_name: str
    memory: ContextMemory
    encode: Callable[[Any], object]
    decode: Callable[[Reply], object]
    deduct: Callable[[LoopState], object]
    tools: Tools
    max_epochs: int
    keep_rejected: bool = False
    retry: Retry | None = None


@dataclass(slots=True)
class AgentTurn:
    """One answer of the model, and the verdict on it."""

    state: LoopState
    created: Stamp
    calls: tuple[ToolCall, ...] = ()
    phase: Phase = "return"
    detail: object = None


class Cycle(Agent):
    """The agent behind an `Automata`. The runs of this agent are prompts.

    Attributes:
        parts: The parts of the agent.
        waiting: Callers in this process that wait, by the name of the prompt.
    """

    on_failed = "next"

    def __init__(self, name: str, parts: AgentParts) -> None:
        super().__init__(name)
        self.parts = parts
        self.waiting: dict[str, Waiting] = {}

    @action(Prompted)
    def prompt(self, event: Prompted, ctx: RunnerContext) -> None:
        """Run a prompt. The commits of the window are part of the run's commit."""
        waiting = self.waiting.get(event.name, Waiting())
        if waiting.is_cancelled:  # a runner restarts an interrupted task
            raise PromptAborted("interrupted")
        try:
            end = self._cycle(event, ctx)
        except Exception as error:
            waiting.error = error
            raise
        except BaseException:
            waiting.is_cancelled = True
            raise
        waiting.end = end
        ctx.send_event(OutputEvent(end.plain()))

    def _cycle(self, event: Prompted, ctx: RunnerContext) -> End:
        parts, durable = self.parts, ctx.durable
        if event.once:
            parts.memory.purge()
        prompt = _message(parts.encode(event.passed))
        context = self._context(prompt)
        epoch = 0
        while True:
            epoch += 1
            turn = self._ask_model(
                durable, LoopState(epoch, event.passed, prompt, _NO_REPLY), context
            )
            if turn.calls:
                self._call(ctx, turn)
            else:
                self._judge(turn)
            self._remember(turn)
            if turn.phase == "return":
                return End(turn.state.reply, turn.state.value)
            if turn.phase == "abort":
                return End(turn.state.reply, error=_why(turn.detail))
            if turn.phase != "retry":
                prompt = Message.of(cast("Message | str", turn.detail), "user")
                context = self._context(prompt)

    def _context(self, prompt: Message) -> list[dict[str, str]]:
        """Return the messages to the model: the window's context, and the callable tools."""
        memory, instructions = self.parts.memory, self.parts.tools.instructions
        found = cast("object", memory.context(prompt))  # may come from a user's class
        listed = list(cast("Sequence[object]", found)) if isinstance(found, Sequence) else [found]
        if wrong := [one for one in listed if not isinstance(one, Message)]:
            name = type(memory).__name__
            raise InvalidInput(
                f"the context of {name} must be a list of messages, but contains {wrong[0]!r}"
            )
        messages = cast("list[Message]", listed)
        if instructions:
            first = next((i for i, m in enumerate(messages) if m.role != "system"), len(messages))
            messages.insert(first, Message.stratum(instructions))
        return [message.to_chat() for message in messages]

    def _ask_model(
        self, durable: Durable, state: LoopState, context: list[dict[str, str]]
    ) -> AgentTurn:
        """Return the model's answer. A continued run returns the recorded answer."""
        parts = self.parts

        def model(epoch: int) -> dict[str, str]:
            del epoch  # only distinguishes this call from others
            text = parts.model([dict(message) for message in context])
            if not isinstance(text, str):
                problem = f"it returned {type(text).__name__}, not a text"
                raise ModelAnswerInvalid(parts.model_name, problem)
            answer = said_by(parts.model_name, str.__str__(text))
            return {"text": answer, "created": str(Stamp.new())}

        said = durable.using(name="model", retry=parts.retry)(model, state.epoch)
        created = Stamp(said["created"])
        calls = parts.tools.calls(said["text"])
        ids = tuple(f"{created}.{n}" for n in range(len(calls)))
        reply = Reply(Message(said["text"], "assistant", calls=ids))
        return AgentTurn(LoopState(state.epoch, state.input, state.prompt, reply), created, calls)

    def _judge(self, turn: AgentTurn) -> None:
        """Decode a reply, and ask the reasoner. Set the verdict in *turn*."""
        state, value, feedback = turn.state, None, None
        try:
            value = self.parts.decode(state.reply)
        except Unfit as error:
            feedback = str(error)
        reply = state.reply
        checked_number(reply.importance, "the importance that the decoder set", least=0, most=1)
        if reply.importance and reply.scored_by is None:
            reply.scored_by = "decoder"
        turn.state = replace(state, value=value, feedback=feedback)
        turn.phase, turn.detail = read_answer(self.parts.deduct(turn.state))
        if turn.phase not in ("return", "abort") and state.epoch >= self.parts.max_epochs:
            turn.phase, turn.detail = "abort", EpochsSpent(self.parts.max_epochs)

    def _call(self, ctx: RunnerContext, turn: AgentTurn) -> None:
        """Call the tools that a reply asks for. Their results are the next prompt.

        A tool's changes to the memory of the agent's key are committed with the prompt. Changes to
        another key are committed once, under the id of the call.
        """
        limit = self.parts.max_epochs
        if turn.state.epoch >= limit:  # no epoch is left for the results
            turn.phase, turn.detail = "abort", EpochsSpent(limit)
            return
        answers: list[str] = []
        ids = turn.state.reply.content.calls
        for call, call_id in zip(turn.calls, ids, strict=True):
            heard = self._answer(ctx, call, call_id)
            if heard.aborted is not None:
                turn.phase, turn.detail = "abort", heard.aborted
                return
            answers.append(heard.text)
        turn.phase, turn.detail = "ask", Message("\n".join(answers), "tool", answers=ids)

    def _answer(self, ctx: RunnerContext, call: ToolCall, call_id: str) -> ToolResult:
        """Call a tool. If the run continues after a kill, return the recorded result."""
        tools = self.parts.tools
        using = ctx.durable.using(name="tool", reconcile=tools.reconciler(call))
        memory = tools.memory(call.tool)
        if memory is None:
            return read_result(using(tools.call, call.tool, call.arguments))
        inside = memory.within(ctx)
        if inside is None:
            return ToolResult(using(tools.use_memory, call.tool, call.arguments, call_id))
        return ToolResult(tools.use_memory(call.tool, call.arguments, call_id, inside))

    def _remember(self, turn: AgentTurn) -> None:
        """Commit a turn to the window. A discarded reply is committed only with `keep_rejected`."""
        if turn.phase == "retry" and not self.parts.keep_rejected:
            return
        state = turn.state
        self.parts.memory.commit(
            Observation(
                Input(state.prompt), state.reply, created=turn.created, outcome=OUTCOMES[turn.phase]
            )
        )


_NO_REPLY = Reply(Message("", "assistant"))


def _message(given: object) -> Message:
    if not isinstance(given, Message | str):
        raise InvalidInput(f"an encoder must return a str or a Message, not {given!r}")
    return Message.of(given, "user")


def _why(reason: object) -> Exception:
    """Return the error of an aborted prompt."""
    if isinstance(reason, Exception):
        return reason
    return PromptAborted("the prompt was given up" if reason is None else f"given up: {reason}")
