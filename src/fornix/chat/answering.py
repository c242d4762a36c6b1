"""How an agent comes to a reply: answers are asked for, reviewed, acted on, and remembered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from fornix.chat import recalling
from fornix.chat.actions import ActionOutput, asked_for, awaited, checked_output
from fornix.chat.messages import AgentMessage, Review
from fornix.chat.printing import print_answer
from fornix.errors import InvalidInput
from fornix.layers import GptsMessage
from fornix.llm import Message
from fornix.task import RunnerContext

if TYPE_CHECKING:
    from fornix.chat.agents import ConversableAgent  # which answers so

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
            told = Message(role="user", content=AGAIN.format(reason=reason))
            messages += [Message(role="assistant", content=text), told]

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
            model_name=recalling.NAME if client is None else client.name,
            success=reason is None,
            reason=reason,
            current_goal=question,
            review_info=review,
            action_report=output,
        )

    async def _asked(self, question: str, messages: Sequence[Message]) -> str:
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
        return await asyncio.to_thread(recalling.answer_from_memory, question, fragments, key, sets)

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
