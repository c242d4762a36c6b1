"""One exchange as one run: of the key that the conversation is, on a runner of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from fornix.agent import Agent, action
from fornix.at_work import refuse_own_run
from fornix.chat.answering import Answering, logged
from fornix.chat.messages import AgentMessage
from fornix.chat.printing import print_message
from fornix.errors import RunDiscarded, RunParked
from fornix.events import Event, OutputEvent
from fornix.runner import LocalRunner
from fornix.scope import Scope
from fornix.task import RunnerContext
from fornix.writer import new_id

if TYPE_CHECKING:
    from fornix.chat.agents import ConversableAgent  # which holds exchanges


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
        async with self.recipient.turns:
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
