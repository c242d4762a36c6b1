"""One exchange as one run: of the key that the conversation is, on a runner of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from fornix.agents.chat import prompt_templates
from fornix.agents.chat.actions import ActionOutput, asked_for, awaited, checked_output
from fornix.agents.chat.agent_messages import AgentMessage, Review
from fornix.agents.chat.agent_profile import print_answer, print_message
from fornix.agents.layers import GptsMessage
from fornix.errors import InvalidInput, RunDiscarded, RunParked
from fornix.events.events import Event, OutputEvent
from fornix.llm import ModelMessage
from fornix.runs.agent import Agent, action
from fornix.runs.runner import LocalRunner
from fornix.runs.task import RunnerContext
from fornix.sets.writer import new_id
from fornix.store.running_keys import refuse_own_run
from fornix.store.scope import Scope

if TYPE_CHECKING:
    from fornix.agents.chat.conversable_agent import ConversableAgent  # which answers so

ASK = "ask the model"
"""What the record of a run calls the model's part."""

AGAIN = "That answer was not accepted: {reason}\nPlease answer again."
"""What a model is told that is asked again."""


@dataclass
class Answering:
    """The answers of one agent in one exchange.

    Attributes:
        reviewer: Who says whether an answer may go out; None: any may.
        ctx: Of the run that the exchange is.
    """

    recipient: ConversableAgent
    reviewer: ConversableAgent | None
    ctx: RunnerContext

    async def answer(self, question: str, rounds: int) -> AgentMessage:
        """Return the first answer that is approved and acted on, or the last one there may be."""
        read = self.recipient.read_memories(question)
        memories = await awaited(read, self._named("read_memories"))
        messages = self.recipient.prompts(question, memories)
        tried = 0
        while True:
            text = await self._asked(question, messages)
            review, output, reason = await self._judged(text)
            await self.recipient.remember(
                tried,
                question=question,
                ai_message=text,
                action_output=output,
                check_pass=reason is None,
                check_fail_reason=reason,
            )
            tried += 1
            if reason is None or tried >= self.recipient.max_retry_count:
                return self._reply(question, rounds, review, output, reason)
            told = ModelMessage(role="user", content=AGAIN.format(reason=reason))
            messages += [ModelMessage(role="assistant", content=text), told]

    def _reply(
        self,
        question: str,
        rounds: int,
        review: Review,
        output: ActionOutput,
        reason: str | None,
    ) -> AgentMessage:
        client = self.recipient.llm.llm_client
        return AgentMessage(
            output.content,
            self.recipient.name,
            self.recipient.role,
            rounds,
            model_name=prompt_templates.NAME if client is None else client.name,
            success=reason is None,
            reason=reason,
            current_goal=question,
            review_info=review,
            action_report=output,
        )

    async def _asked(self, question: str, messages: Sequence[ModelMessage]) -> str:
        client, context = self.recipient.llm.llm_client, self.recipient.context
        if client is None:
            text = await self._recalled(question)
        else:
            options = {"temperature": context.temperature, "max_tokens": context.max_new_tokens}
            durable = self.ctx.durable.using(name=ASK)
            text = cast("str", await durable(client.complete, list(messages), **options))
        if context.verbose:
            print_answer(messages, text)
        return text

    async def _recalled(self, question: str) -> str:
        fragments, sets = await self.recipient.found_in_memory(question)
        key = self.recipient.home.key(self.recipient.conv_id)
        return await asyncio.to_thread(
            prompt_templates.answer_from_memory, question, fragments, key, sets
        )

    async def _judged(self, text: str) -> tuple[Review, ActionOutput, str | None]:
        """Return what was said of an answer, what came of it, and why it does not go out."""
        review = Review(approve=True)
        if self.reviewer is not None:
            method = f"{type(self.reviewer).__name__}.review"
            verdict = await awaited(self.reviewer.review(text, self.recipient), method)
            review = _verdict(verdict, method)
        if not review.approve:
            reason = review.comments or "the reviewer said no"
            return review, ActionOutput(text, is_exe_success=False), reason
        act = self.recipient.act
        done = await awaited(act(text, **asked_for(act, ctx=self.ctx)), self._named("act"))
        output = checked_output(done, self._named("act"))
        if not output.is_exe_success:
            return review, output, output.observations or output.content or "its action failed"
        method = self._named("verify")
        check = _verdict(await awaited(self.recipient.verify(text, output), method), method)
        wrong = check.comments or "it was found to be wrong"
        return review, output, None if check.approve else wrong

    def _named(self, method: str) -> str:
        return f"{type(self.recipient).__name__}.{method}"


def _verdict(said: object, method: str) -> Review:
    """Return what a user's method said of an answer.

    Raises:
        InvalidInput: It is no pair of yes or no, and why.
    """
    match said:
        case (bool() as approve, str() | None as comments):
            return Review(approve, comments)
        case _:
            raise InvalidInput(
                f"{method} must return (True or False, a text or None), not {said!r}"
            )


def logged(message: AgentMessage, conv_id: str, *, to: str, role: str) -> GptsMessage:
    """Return a message as the log of its conversation keeps it."""
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


class Said(Event):
    """The input of an exchange."""

    exchange: str
    sender: str
    sender_role: str
    message: str


@dataclass
class Exchange:
    """What is said to an agent, and who is there when it answers.

    Attributes:
        failures: What answers raised, by run.
    """

    sender: ConversableAgent
    recipient: ConversableAgent
    reviewer: ConversableAgent | None
    message: str
    failures: dict[int, Exception] = field(default_factory=dict[int, Exception])

    async def hold(self, event_id: str | None) -> AgentMessage:
        """Return the recipient's reply; see `ConversableAgent.initiate_chat`."""
        home, key = self.recipient.home, self.recipient.conv_id
        refuse_own_run(home.engine.store, Scope(home.space, key))
        who = f"{self.recipient.role}/{self.recipient.name}"
        # A runner per exchange: nobody closes an agent. A name per conversation and agent: the
        # agents that are there answer what is left of their own conversation, and of no other.
        agent = Agent(
            f"chat {key} {who}",
            actions=[self._answer()],
            on_failed="next",
            on_mismatch="truncate",
        )
        async with self.recipient.lock:
            runner = LocalRunner(agent, home)
            if event_id is None:
                event_id = await asyncio.to_thread(self._left, runner) or new_id()
            try:
                reply = await self._reply(runner, event_id)
            except Exception:
                await runner.aclose()
                raise
            except BaseException:
                await runner.aclose(wait_s=0)  # what is cut off is not waited for
                raise
            await runner.aclose()
        await self.recipient.memory.gpts_memory.push_message(key)
        return reply

    def _left(self, runner: LocalRunner) -> str | None:
        """Return which exchange with the same message was cut off, if one was."""
        runs = runner.runs.list(key=self.recipient.conv_id, status="waiting")
        for run in reversed(runs):
            if run.input == self._said(run.input.get("exchange", "")).data:
                return run.input["exchange"]
        return None

    def _said(self, exchange: str) -> Said:
        return Said(exchange, self.sender.name, self.sender.role, self.message)

    async def _reply(self, runner: LocalRunner, event_id: str) -> AgentMessage:
        """Return the reply in the exchange of that id; one that failed is held again."""
        key = self.recipient.conv_id
        for again in count():
            exchange = f"{event_id} again {again}" if again else event_id
            try:
                outputs = await runner.ahandle(key, self._said(exchange), event_id=exchange)
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
        raise AssertionError  # count() has no end

    def _answer(self) -> Any:  # noqa: ANN401 - an action, as Agent takes it
        @action(Said)
        async def answer(event: Said, ctx: RunnerContext) -> None:
            try:
                reply = await self._answered(event, ctx)
                ctx.send_event(OutputEvent(reply.to_dict()))
            except Exception as error:
                self.failures[ctx.run.id] = error
                raise

        return answer

    async def _answered(self, said: Said, ctx: RunnerContext) -> AgentMessage:
        recipient, rounds = self.recipient, ctx.run.number
        asked = AgentMessage(said.message, said.sender, said.sender_role, rounds)
        if recipient.context.verbose:
            print_message(asked, recipient.name)
        reply = await Answering(recipient, self.reviewer, ctx).answer(said.message, rounds)
        if recipient.context.verbose:
            print_message(reply, said.sender)
        log, key = recipient.memory.gpts_memory, recipient.conv_id
        await log.keep_message(key, logged(asked, key, to=recipient.role, role="user"))
        await log.keep_message(key, logged(reply, key, to=said.sender_role, role="assistant"))
        return reply
