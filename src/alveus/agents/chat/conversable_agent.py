"""Agents that talk to each other and remember it: DB-GPT's `ConversableAgent`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import count
from typing import Any, ClassVar, NoReturn, Self, cast

from alveus.agents.chat import prompt_templates
from alveus.agents.chat.agent_parts import (
    Action,
    ActionOutput,
    AgentContext,
    AgentMessage,
    LLMConfig,
    ProfileConfig,
    Review,
    called,
    checked_output,
    listed,
    print_answer,
    print_message,
)
from alveus.agents.layers import (
    AgentMemory,
    AgentMemoryFragment,
    GptsMessage,
    MemoryFragment,
    memories_text,
)
from alveus.agents.storage import FairLock
from alveus.errors import InvalidInput, RunDiscarded, RunParked
from alveus.llm import ModelMessage, checked_messages, said_by
from alveus.memory.memory import Memory
from alveus.runs.agent import Agent, action
from alveus.runs.durable_calls import LOOK_S, Interrupted
from alveus.runs.runner import LocalRunner
from alveus.runs.task import RunnerContext
from alveus.store.running_keys import refuse_in_run
from alveus.store.scope import Scope
from alveus.values.events import Event, OutputEvent
from alveus.values.ids import new_id
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_kind, counted

BINDABLE = (
    "an AgentContext, an LLMConfig, an AgentMemory, a ProfileConfig, an Action (its class or an "
    "instance), or an alveus Memory"
)

ASK = "ask the model"
"""The name under which a run records the call of the model."""

AGAIN = "That answer was not accepted: {reason}\nPlease answer again."
"""The message to a model whose answer was not accepted."""


class ConversableAgent:
    """An agent with a profile, a memory, a model and actions; see docs/chat.md.

    ::

        joy = await (
            ConversableAgent(profile=ProfileConfig(name="Joy", role="Comedian"))
            .bind(AgentContext(conv_id="test123"))
            .bind(LLMConfig(client))
            .bind(BlankAction)
            .build()
        )

    A subclass may set `profile`, and override `read_memories`, `write_memories`, `review`, `act`
    and `verify`. These run on an event loop of the exchange's runner, not on the caller's.

    Args:
        profile: The agent's profile. None means the profile of the class, or a profile that is
            bound later.

    Raises:
        InvalidInput: The profile cannot be bound.
    """

    profile: ProfileConfig | None = None
    max_retry_count: int = 3
    """The most answers to a question, the first included, as in DB-GPT."""

    is_human: ClassVar[bool] = False

    def __init__(self, profile: ProfileConfig | None = None) -> None:
        self._context: AgentContext | None = None
        self._llm: LLMConfig | None = None
        self._given: AgentMemory[Any] | None = None
        self._store: Memory | None = None
        self._actions: list[Action] = []
        self._built: tuple[AgentMemory[Any], Memory] | None = None
        self.lock = FairLock()
        if profile is not None:
            self.bind(profile)

    def __repr__(self) -> str:
        who = "without a profile" if self.profile is None else repr(self.profile.name)
        if self._built is None:
            return f"<{type(self).__name__} {who}, not built>"
        where = "RAM, until this process ends" if self._store is None else repr(self._store)
        return f"<{type(self).__name__} {who} in {where}>"

    # --- binding and building -----------------------------------------------------------------

    def bind(self, target: object) -> Self:
        """Add a part to the agent; its type decides its role. Return the agent. Then call `build`.

        Args:
            target: An `AgentContext`, `LLMConfig`, `AgentMemory` or `ProfileConfig`, which replaces
                an earlier part of this type; an `Action` class or instance, which is added to
                earlier actions; or an `alveus.Memory`, which makes the exchanges durable.

        Raises:
            InvalidInput: The target has another type.
        """
        if isinstance(target, AgentContext):
            self._context = target
        elif isinstance(target, LLMConfig):
            self._llm = target
        elif isinstance(target, ProfileConfig):
            self.profile = target
        elif isinstance(target, AgentMemory):
            self._given = cast("AgentMemory[Any]", target)
        elif isinstance(target, Memory):
            self._store = target
        else:
            self._actions.append(_action(target))
        self._built = None
        return self

    def _init_actions(self, actions: Sequence[object]) -> None:
        """Bind actions, each given as a class or an instance."""
        self._actions += map(_action, actions)

    async def build(self) -> Self:
        """Check that all parts are bound, and give the agent its memory. Return the agent.

        The memory is kept in the key ``conv_id``, in sets named by role and name: a rebuilt agent
        with the same memory remembers.

        Raises:
            InvalidInput: A part is missing, and the message names it; or `max_retry_count` is not a
                whole number from 1.
            TemplatesMissing: jinja2 is not installed.
        """
        missing = self._missing()
        if missing:
            raise InvalidInput(f"{self!r} cannot be built; first bind {', and '.join(missing)}")
        counted(self.max_retry_count, f"the max_retry_count of agent {self.name!r}")
        prompt_templates.check_installed()
        given = self._given or AgentMemory[Any]()
        who, conv_id = self._who(), self.conv_id
        log = given.gpts_memory
        if self._store is not None:
            log = log.kept_in(self._store)
        run_memory = self._store or log.message_memory.memory
        reads_meaning = any(part.reads_meaning for part in given.memory.parts())
        here = given.memory.storage.is_ram and (self._store is not None or not reads_meaning)
        inner = given.memory.structure_clone(
            label=f"{who.role}/{who.name}", memory=run_memory.key(conv_id) if here else None
        )
        built = AgentMemory[Any](inner, given.importance_scorer, given.insight_extractor, log)
        client = None if self._llm is None else self._llm.llm_client
        session = f"{conv_id}_{who.role}_{who.name}"
        built.initialize(who.name, client, session_id=session)
        self._built = built, run_memory
        return self

    def _missing(self) -> list[str]:
        needed: dict[str, object] = {
            "an AgentContext": self._context,
            "a ProfileConfig": self.profile,
            "an LLMConfig": self.is_human or self._llm,
            "an Action, such as BlankAction": self.is_human or self._actions,
        }
        return [name for name, part in needed.items() if not part]

    @property
    def is_built(self) -> bool:
        """True if the agent was built after the last call of `bind`."""
        return self._built is not None

    @property
    def memory(self) -> AgentMemory[Any]:
        """The agent's memory, and the log of messages that agents share.

        Raises:
            InvalidInput: The agent is not built.
        """
        return self._built_in()[0]

    def _built_in(self) -> tuple[AgentMemory[Any], Memory]:
        if self._built is None:
            raise InvalidInput(
                f"{self!r} has no memory before it is built; call await agent.build() first"
            )
        return self._built

    @property
    def run_memory(self) -> Memory:
        """The memory for exchanges, which are runs: the bound memory, or RAM.

        Raises:
            InvalidInput: The agent is not built.
        """
        return self._built_in()[1]

    @property
    def context(self) -> AgentContext:
        """The agent's conversation.

        Raises:
            InvalidInput: No context was bound.
        """
        if self._context is None:
            raise InvalidInput(f"{self!r} is in no conversation; bind an AgentContext to it")
        return self._context

    @property
    def conv_id(self) -> str:
        """The name of the conversation."""
        return self.context.conv_id

    @property
    def name(self) -> str:
        """The name of the agent."""
        return self._who().name

    @property
    def role(self) -> str:
        """The role of the agent."""
        return self._who().role

    def _who(self) -> ProfileConfig:
        if self.profile is None:
            raise InvalidInput(f"{self!r} has no profile; bind a ProfileConfig to it")
        return self.profile

    @property
    def llm(self) -> LLMConfig:
        """The configuration with the model that answers for the agent."""
        return self._llm or LLMConfig()

    @property
    def write_memory_template(self) -> str:
        """The template of the fragments that the agent remembers."""
        return self._who().write_memory_template or prompt_templates.WRITE

    # --- talking ------------------------------------------------------------------------------

    async def initiate_chat(
        self,
        recipient: ConversableAgent,
        reviewer: ConversableAgent | None = None,
        message: str = "",
        *,
        event_id: str | None = None,
    ) -> AgentMessage:
        """Send a message to another agent, and return the reply of that agent.

        One exchange is one run of the key ``conv_id``: what the agents remember is committed
        together with the reply, or not at all. The model answers once, even if the process dies:
        the same message to the same agent continues an interrupted exchange. Another message waits
        until the exchange has ended.

        Args:
            recipient: The agent that answers. It must be built, and in the same conversation.
            reviewer: The agent whose `review` approves answers. None means that all answers are
                approved.
            event_id: The name of the exchange. A second call with the same name returns the first
                reply, unless the exchange failed.

        Raises:
            InvalidInput: An argument cannot be used. Nothing is remembered.
            ModelFailed: The model did not answer. Nothing is remembered. The same holds for any
                other error of the model, the reviewer, an action, or a method of a subclass.
            IdempotencyConflict: The event id was used for another message.
        """
        _check(self, recipient, reviewer, message)
        return await Exchange(self, recipient, reviewer, message).hold(event_id)

    def prompts(
        self, question: str, memories: str | Sequence[Mapping[str, object]]
    ) -> list[ModelMessage]:
        """Return the messages of a prompt, rendered with the templates of the profile.

        Args:
            memories: The result of `read_memories`.
        """
        who, context, client = self._who(), self.context, self.llm.llm_client
        past: Sequence[ModelMessage] = ()
        if memories and not isinstance(memories, str):
            images = client is not None and client.takes_images
            what = f"{type(self).__name__}.read_memories()"
            past = checked_messages(memories, what=what, images=images)
        values = {
            "name": who.name,
            "role": who.role,
            "goal": who.goal,
            "desc": who.desc,
            "constraints": listed(who.constraints, "constraints"),
            "resources": listed(who.resources, "resources"),
            "language": prompt_templates.language_name(context.language),
            "question": question,
            "most_recent_memories": memories if isinstance(memories, str) else "",
        }
        system = self._render_template(
            who.system_prompt_template or prompt_templates.SYSTEM, **values
        )
        asked = self._render_template(who.user_prompt_template or prompt_templates.USER, **values)
        return [
            ModelMessage(role="system", content=system),
            *past,
            ModelMessage(role="user", content=asked),
        ]

    def _render_template(self, template: str, **values: Any) -> str:  # noqa: ANN401 - DB-GPT's signature
        """Return a template with values filled in, as jinja2 does."""
        return prompt_templates.rendered(template, values)

    # --- for subclasses to override -----------------------------------------------------------

    async def read_memories(self, question: str) -> str | list[dict[str, Any]]:
        """Return the memories for a question: a text for the prompt, or messages before it."""
        return memories_text(await self.memory.read(observation=question))

    async def write_memories(
        self,
        question: str,
        ai_message: str,
        action_output: ActionOutput | None = None,
        check_pass: bool = True,  # noqa: FBT001, FBT002 - DB-GPT's signature
        check_fail_reason: str | None = None,
        current_retry_counter: int | None = None,
    ) -> None:
        """Remember an answer. Called for every answer, also for a rejected answer.

        Args:
            question: The question.
            ai_message: The model's answer.
            action_output: The output of the action, which is always passed.
            check_pass: True if the answer is approved.
            check_fail_reason: Why the answer is not approved.
            current_retry_counter: The number of the answer to the question, from 0. The first call
                also remembers the question. An override need not have this parameter.
        """
        if action_output is None:
            raise InvalidInput("write_memories() needs action_output=, an ActionOutput to remember")
        content = self._render_template(
            self.write_memory_template,
            question=None if current_retry_counter else question,
            thought=action_output.thoughts or ai_message,
            action=action_output.action,
            action_input=action_output.action_input,
            phase=action_output.phase,
            observation=action_output.observations if check_pass else check_fail_reason,
        )
        failed = {} if check_pass else {"rejected": check_fail_reason or "no reason given"}
        await self.memory.write(AgentMemoryFragment(content, metadata=failed))

    async def review(self, message: str, censored: ConversableAgent) -> tuple[bool, str | None]:
        """Return whether to approve *censored*'s answer, and comments: by default (True, None)."""
        del message, censored
        return True, None

    async def act(self, message: str, *, ctx: RunnerContext | None = None) -> ActionOutput:
        """Run each action on an answer, and return the output of the last action.

        Args:
            message: The model's answer.
            ctx: The context of the exchange's run. An override need not have this parameter.
        """
        output: ActionOutput | None = None
        for each in self._actions:
            made = await called(each, "run", message, optional={"ctx": ctx}, rely_action_out=output)
            output = checked_output(made, f"{type(each).__name__}.run")
        assert output is not None  # noqa: S101 - `build` saw an action
        return output

    async def verify(self, message: str, action_output: ActionOutput) -> tuple[bool, str | None]:
        """Return whether an output is right, and why it is not: by default (True, None)."""
        del message, action_output
        return True, None


class UserProxyAgent(ConversableAgent):
    """The human in a conversation, who sends the program's messages and reviews answers.

    Only a context has to be bound. To reject answers, derive a class that overrides `review`.
    """

    profile: ProfileConfig | None = ProfileConfig(name="User", role="Human")
    is_human: ClassVar[bool] = True


def _action(target: object) -> Action:
    if isinstance(target, type) and issubclass(target, Action):
        try:
            return target()
        except TypeError as error:
            raise InvalidInput(
                f"{target.__name__} cannot be made without arguments ({error}); bind an "
                "instance of it"
            ) from error
    if isinstance(target, Action):
        return target
    raise InvalidInput(f"bind() takes {BINDABLE}, not {target!r}")


def _check(sender: ConversableAgent, recipient: object, reviewer: object, message: object) -> None:
    """Raise `InvalidInput` if an argument cannot be used."""
    if not isinstance(message, str) or not message:
        raise InvalidInput(f"the message of initiate_chat must be a non-empty str, not {message!r}")
    checked_kind(reviewer, ConversableAgent | None, "the reviewer must be a ConversableAgent")
    if not isinstance(recipient, ConversableAgent):
        raise InvalidInput(f"the recipient must be a ConversableAgent, not {recipient!r}")
    if recipient.is_human:
        raise InvalidInput(
            f"{recipient!r} has no model to answer; make it the sender, or bind a model to it"
        )
    for agent in (sender, recipient):
        if not agent.is_built:
            raise InvalidInput(f"{agent!r} is not built; call await agent.build() before the chat")
    if sender.conv_id != recipient.conv_id:
        raise InvalidInput(
            f"{sender!r} is in conversation {sender.conv_id!r}, but {recipient!r} is in "
            f"{recipient.conv_id!r}; bind both to one AgentContext"
        )


# --- an exchange: one run of the conversation's key, on a separate runner -------------------------


async def _verdict(agent: ConversableAgent, method: str, *args: object) -> Review:
    """Return the verdict of a user's `review` or `verify` on an answer."""
    match await called(agent, method, *args):
        case (bool() as approve, str() | None as comments):
            return Review(approve, comments)
        case other:
            raise InvalidInput(
                f"{type(agent).__name__}.{method} must return a pair of True or False and a "
                f"text or None, not {other!r}"
            )


def logged(message: AgentMessage, conv_id: str, *, to: str, role: str) -> GptsMessage:
    """Return a message for the log of its conversation."""
    review, report = message.review_info, message.action_report
    return GptsMessage(
        conv_id,
        message.role,
        to,
        role,
        message.content,
        message.rounds,
        message.success,
        current_goal=message.current_goal,
        review_info=None if review is None else str(review),
        action_report=None if report is None else json.dumps(report.to_dict()),
        model_name=message.model_name,
    )


class ExchangeInput(Event):
    """The input of an exchange."""

    exchange: str
    sender: str
    sender_role: str
    message: str


@dataclass
class Exchange:
    """A message to an agent and its answer.

    Attributes:
        reviewer: The agent that approves answers. None means that all answers are approved.
        failures: The errors of failed exchanges, by the id of the run.
        wanted: The exchange whose reply the caller waits for.
        is_answered: True once the exchange has its reply.
        is_over: True once no caller waits for an answer.
    """

    sender: ConversableAgent
    recipient: ConversableAgent
    reviewer: ConversableAgent | None
    message: str
    failures: dict[int, Exception] = field(default_factory=dict[int, Exception])
    wanted: str = ""
    is_answered: bool = False
    is_over: bool = False

    async def hold(self, event_id: str | None) -> AgentMessage:
        """Return the recipient's reply; see `ConversableAgent.initiate_chat`."""
        run_memory, key = self.recipient.run_memory, self.recipient.conv_id
        refuse_in_run(run_memory.engine.store, Scope(run_memory.space, key))
        # A runner per exchange, since nobody closes an agent. Its name contains the conversation
        # and the agent, so that it continues interrupted exchanges of this conversation only.
        agent = Agent(
            f"chat {key} {self.recipient.role}/{self.recipient.name}",
            actions=[self._action()],
            on_failed="next",
            on_mismatch="truncate",
        )
        async with self.recipient.lock:
            runner = LocalRunner(agent, run_memory)
            if event_id is None:
                event_id = await asyncio.to_thread(self._interrupted, runner) or new_id()
            try:
                try:
                    reply = await self._reply(runner, event_id)
                finally:
                    self.is_over = True
            except Exception:
                await runner.aclose()
                raise
            except BaseException:
                await runner.aclose(wait_s=0)  # does not wait for a cancelled exchange
                raise
            await runner.aclose()
        await self.recipient.memory.gpts_memory.push_message(key)
        return reply

    def _interrupted(self, runner: LocalRunner) -> str | None:
        """Return the id of an interrupted exchange with the same message, or None."""
        runs = runner.runs.list(key=self.recipient.conv_id, status="waiting")
        for run in reversed(runs):
            if run.input == self._input(run.input.get("exchange", "")).data:
                return run.input["exchange"]
        return None

    def _input(self, exchange: str) -> ExchangeInput:
        return ExchangeInput(exchange, self.sender.name, self.sender.role, self.message)

    async def _reply(self, runner: LocalRunner, event_id: str) -> AgentMessage:
        """Return the reply of the exchange *event_id*. A failed exchange is repeated."""
        key = self.recipient.conv_id
        for again in count():
            exchange = f"{event_id} again {again}" if again else event_id
            self.wanted, self.is_answered = exchange, False
            try:
                outputs = await runner.ahandle(key, self._input(exchange), event_id=exchange)
            except RunDiscarded:
                continue
            except RunParked as parked:
                failure = self.failures.get(parked.run)
                if failure is None:
                    raise
                await asyncio.to_thread(runner.runs.discard, parked.run)
            else:
                return AgentMessage.from_dict(outputs[0])
            raise failure
        raise AssertionError  # count() never ends

    def _action(self) -> Any:  # noqa: ANN401 - an action, as Agent takes it
        @action(ExchangeInput)
        async def answer(event: ExchangeInput, ctx: RunnerContext) -> None:
            if self.is_answered and event.exchange != self.wanted:
                await self._leave()
            try:
                reply = await self._answered(event, ctx)
                ctx.send_event(OutputEvent(reply.to_dict()))
                self.is_answered = event.exchange == self.wanted
            except Exception as error:
                self.failures[ctx.run.id] = error
                raise

        return answer

    async def _leave(self) -> NoReturn:
        """Leave another interrupted exchange for the next call with its message."""
        while not self.is_over:  # noqa: ASYNC110 - it is set in another thread
            await asyncio.sleep(LOOK_S)
        raise Interrupted

    async def _answered(self, said: ExchangeInput, ctx: RunnerContext) -> AgentMessage:
        """Return the recipient's reply, and log both messages."""
        recipient, rounds = self.recipient, ctx.run.number
        asked = AgentMessage(said.message, said.sender, said.sender_role, rounds)
        if recipient.context.verbose:
            print_message(asked, recipient.name)
        reply = await self._accepted(said.message, ctx)
        if recipient.context.verbose:
            print_message(reply, said.sender)
        log, key = recipient.memory.gpts_memory, recipient.conv_id
        await log.keep_message(key, logged(asked, key, to=recipient.role, role="user"))
        await log.keep_message(key, logged(reply, key, to=said.sender_role, role="assistant"))
        return reply

    async def _accepted(self, question: str, ctx: RunnerContext) -> AgentMessage:
        """Return the first approved answer whose action succeeded, or the last allowed answer."""
        recipient, tried = self.recipient, 0
        memories = await called(recipient, "read_memories", question)
        messages = recipient.prompts(question, memories)
        while True:
            text = await self._ask_model(question, messages, ctx)
            review, output, reason = await self._judged(text, ctx)
            await called(
                recipient,
                "write_memories",
                optional={"current_retry_counter": tried},
                question=question,
                ai_message=text,
                action_output=output,
                check_pass=reason is None,
                check_fail_reason=reason,
            )
            tried += 1
            if reason is None or tried >= recipient.max_retry_count:
                break
            again = ModelMessage(role="user", content=AGAIN.format(reason=reason))
            messages += [ModelMessage(role="assistant", content=text), again]
        client = recipient.llm.llm_client
        return AgentMessage(
            output.content,
            recipient.name,
            recipient.role,
            ctx.run.number,
            model_name=prompt_templates.NAME if client is None else client.name,
            success=reason is None,
            reason=reason,
            current_goal=question,
            review_info=review,
            action_report=output,
        )

    async def _ask_model(
        self, question: str, messages: Sequence[ModelMessage], ctx: RunnerContext
    ) -> str:
        client, context = self.recipient.llm.llm_client, self.recipient.context
        if client is None:
            text = await self._recalled(question)
        else:
            options = {"temperature": context.temperature, "max_tokens": context.max_new_tokens}
            durable = ctx.durable.using(name=ASK)
            answer = cast("str", await durable(client.complete, list(messages), **options))
            text = said_by(client.name, answer)
        if context.verbose:
            print_answer(messages, text)
        return text

    async def _recalled(self, question: str) -> str:
        """Return an answer without a model, from the agent's memory and its conversation's sets."""
        memory, key = self.recipient.memory, self.recipient.run_memory.key(self.recipient.conv_id)
        fragments: list[MemoryFragment] = await memory.read(observation=question)
        log_set = memory.message_memory.set_name
        searched = {*(part.set_name for part in memory.memory.parts()), log_set}
        sets = [name for name in await asyncio.to_thread(key.sets) if name in searched]
        return await asyncio.to_thread(
            prompt_templates.answer_from_memory, question, fragments, key, sets
        )

    async def _judged(
        self, text: str, ctx: RunnerContext
    ) -> tuple[Review, ActionOutput, str | None]:
        """Return an answer's review, the output of the action, and why it is rejected, or None."""
        recipient, review = self.recipient, Review(approve=True)
        if self.reviewer is not None:
            review = await _verdict(self.reviewer, "review", text, recipient)
        if not review.approve:
            reason = review.comments or "the reviewer said no"
            return review, ActionOutput(text, is_exe_success=False), reason
        done = await called(recipient, "act", text, optional={"ctx": ctx})
        output = checked_output(done, f"{type(recipient).__name__}.act")
        if not output.is_exe_success:
            return review, output, output.observations or output.content or "its action failed"
        check = await _verdict(recipient, "verify", text, output)
        wrong = check.comments or "it was found to be wrong"
        return review, output, None if check.approve else wrong
