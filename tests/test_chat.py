"""Agents that talk and remember: DB-GPT's document, exchange by exchange, and what alveus adds."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import warm
from alveus import LocalRunner, Memory, ScriptedChat
from alveus.agents.chat import (
    Action,
    ActionOutput,
    AgentContext,
    AgentMessage,
    BlankAction,
    ConversableAgent,
    LLMConfig,
    ProfileConfig,
    UserProxyAgent,
)
from alveus.agents.chat.conversable_agent import AGAIN
from alveus.agents.chat.prompt_templates import SYSTEM, rendered
from alveus.agents.chat.prompt_templates import USER as PLAIN_USER
from alveus.agents.chat.prompt_templates import WRITE as PLAIN_WRITE
from alveus.agents.layers import (
    AgentMemory,
    AgentMemoryFragment,
    GptsMemory,
    LongTermMemory,
    ShortTermMemory,
    memory_text,
    user_prompt,
)
from alveus.errors import (
    IdempotencyConflict,
    InvalidInput,
    InvalidName,
    InvalidValue,
    ModelRefused,
    ModelUnavailable,
    TemplatesMissing,
)
from alveus.testing.chat_server import ChatReply, ChatServer
from chat_worker import ANSWER, KEY, MESSAGES, USER, WRITE, table
from pages import ROOT
from scale import COUNTS
from waiting import LIMIT_S

WORKER = Path(__file__).with_name("chat_worker.py")
PROGRAM = ROOT / "examples" / "04_agents_with_memory" / "program.py"
KILLS = max(8, COUNTS.kills * 5 // 12)

FIRST, SECOND = MESSAGES[:2]
P1 = "\nQuestion: My name is bob, please tell me a joke\n"
P2 = "user: My name is bob, please tell me a joke \nassistant: Sure thing, Bob! "
P3 = (
    "Most recent observations:\nuser: My name is bob, please tell me a joke \n"
    "assistant: Sure thing, Bob! \n\nQuestion: What's my name?\n"
)
SAID = "user: {} \nassistant: Sure thing, Bob! "

LAYOUT = """\
{rule}
User (to Joy)-[]:

"{question}"
{rule}
un_stream ai response: Sure thing, Bob!
{rule}
String Prompt[verbose]:
system: Your name is Joy, and your role is Comedians.
Please answer in English.
human: {prompt}
LLM Output[verbose]:
Sure thing, Bob!
{rule}
{rule}
Joy (to User)-[gpt-4o]:

"Sure thing, Bob!"
>>>>>>>>Joy Review info:
Pass(None)
>>>>>>>>Joy Action report:
execution succeeded,
Sure thing, Bob!
{rule}
"""
"""What `verbose=True` prints of an exchange of DB-GPT's program."""


LOOP = "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}"


def shown(question: str, prompt: str) -> str:
    return LAYOUT.format(rule="-" * 80, question=question, prompt=prompt)


@pytest.fixture(params=["ram", "file"])
def memory(request, tmp_path):
    """What is bound: nothing, or a memory on a file."""
    if request.param == "ram":
        yield None
        return
    with Memory.open(tmp_path / "chat.db", embedder="words") as opened:
        yield opened


@pytest.fixture
def store():
    with Memory.open(embedder="words") as opened:
        yield opened


def says(answer=ANSWER):
    return ScriptedChat(lambda _: answer)


def prompts(model) -> list[str]:
    """What the model was asked, without what it was told first."""
    return [request.messages[-1]["content"] for request in model.requests]


async def fragments(agent) -> list[str]:
    return [fragment.raw_observation for fragment in await agent.memory.read("")]


async def log(agent) -> list[str]:
    return [m.content for m in await agent.memory.gpts_memory.get_messages(agent.conv_id)]


# --- the document's program -----------------------------------------------------------------------


def ran(source: str, folder: Path, server: ChatServer, *arguments: str) -> str:
    """What a program prints in a process of its own, with the model at a server."""
    (folder / "program.py").write_text(source, encoding="utf-8")
    environment = {**os.environ, "OPENAI_API_BASE": server.url, "OPENAI_API_KEY": "any"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "program.py", *arguments],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def on_a_file(source: str) -> str:
    """The program with the one change that makes it durable."""
    bound = source.replace(".bind(agent_memory)", '.bind(agent_memory).bind(Memory.open("m.db"))')
    assert bound.count("Memory.open") == 2
    return f"from alveus import Memory\n{bound}"


def test_the_program_of_the_document_runs_unchanged(tmp_path):
    """DB-GPT's program in RAM, on a server of the OpenAI protocol: prompts, options, layout."""
    with ChatServer([ANSWER]) as server:
        printed = ran(PROGRAM.read_text(encoding="utf-8"), tmp_path, server)
    first, second = (asked.body for asked in server.requests)
    assert [m["content"] for m in first["messages"]][1:] == [P1]
    assert [m["content"] for m in second["messages"]][1:] == [P3]
    assert {m["role"] for m in first["messages"]} == {"system", "user"}
    for body in (first, second):
        assert (body["model"], body["temperature"], body["max_tokens"]) == ("gpt-4o", 0.9, 2048)
        system = body["messages"][0]["content"]
        assert "Joy" in system
        assert "Comedians" in system
        assert "English" in system
        assert "goal" not in system
    assert printed == shown(FIRST, P1) + shown(SECOND, P3)


def test_the_program_on_a_file_remembers_its_last_run(tmp_path):
    """Bound to a file on both agents, a second process begins with what the first one left."""
    source = on_a_file(PROGRAM.read_text(encoding="utf-8"))
    with ChatServer([ANSWER]) as server:
        first = ran(source, tmp_path, server)
        ran(source, tmp_path, server)
    asked = [asked.body["messages"][-1]["content"] for asked in server.requests]
    assert first == shown(FIRST, P1) + shown(SECOND, P3)
    assert asked[:2] == [P1, P3]
    assert asked[2].startswith(f"Most recent observations:\n{SAID.format(FIRST)}\n")
    assert SAID.format(SECOND) in asked[2]


def document_joy():
    """The subclass of the document, as its program defines it."""
    spec = importlib.util.spec_from_file_location("e4", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.JoyAgent()


# --- prompts, to the byte -------------------------------------------------------------------------


def test_the_second_prompt_holds_the_first_exchange(memory):
    """P1, P2, P3: with defaults an agent remembers the previous turn."""

    async def talk():
        model = says()
        joy, user = await table(model, memory=memory)
        await user.initiate_chat(joy, user, FIRST)
        assert await fragments(joy) == [P2]
        await user.initiate_chat(joy, user, SECOND)
        assert prompts(model) == [P1, P3]

    asyncio.run(talk())


def test_a_template_leaves_out_what_is_not_there():
    """P4: without a thought, and without a question."""
    assert rendered(WRITE, {"question": "q"}) == "user: q \n"
    assert rendered(WRITE, {"thought": "t"}) == "\nassistant: t "


@pytest.mark.parametrize("own", [False, True], ids=["default", "JoyAgent"])
def test_a_buffer_of_two_holds_the_last_two_turns(memory, own):
    """P5, P6: joined by a line break, or glued where the subclass glues them; turn 1 is gone."""

    async def talk():
        model = says()
        joy = document_joy().bind(
            ProfileConfig("Joy", "Comedians", None, None, None, None, USER, WRITE)
        )
        joy, user = await table(model, memory=memory, joy=joy if own else None)
        for n in range(1, 5):
            await user.initiate_chat(joy, user, f"q{n}")
        between = "" if own else "\n"
        for prompt, turns in zip(prompts(model)[2:], [("q1", "q2"), ("q2", "q3")], strict=True):
            remembered = between.join(SAID.format(turn) for turn in turns)
            assert f"observations:\n{remembered}\n\nQuestion" in prompt
        assert "q1" not in prompts(model)[3]

    asyncio.run(talk())


def test_the_templates_of_who_gives_none_say_what_layers_say():
    """One implementation: they render to what `agents.layers` has for prompts without jinja2."""
    said = {"question": "q", "thought": "t", "action": "a", "observation": "o"}
    for left_out in [*said, None]:
        values = {name: text for name, text in said.items() if name != left_out}
        assert rendered(PLAIN_WRITE, values) == memory_text(**values)
    for memories in ("", "m"):
        values = {"question": "q", "most_recent_memories": memories}
        assert rendered(PLAIN_USER, values) == user_prompt("q", memories)


def test_the_system_prompt_says_what_there_is_to_say():
    """Goal, constraints, resources only if there are any; the context's language, by its name."""

    async def system(language, **profile):
        joy = ConversableAgent(ProfileConfig("Joy", "Poet", **profile))
        return joy.bind(AgentContext(KEY, language)).prompts("q", "")[0]["content"]

    plain = asyncio.run(system(None))
    assert plain == "Your name is Joy, and your role is Poet."
    whole = asyncio.run(
        system(
            "zh-CN",
            goal="rhyme",
            desc="old",
            constraints=["be brief", "be kind"],
            resources="a pen",
        )
    )
    assert whole.splitlines() == [
        plain,
        "Your goal: rhyme",
        "Of you: old",
        "What you can use:",
        "- a pen",
        "What you have to keep to:",
        "- be brief",
        "- be kind",
        "Please answer in Chinese.",
    ]
    assert asyncio.run(system("Klingon")).endswith("Please answer in Klingon.")
    own = asyncio.run(system("en", system_prompt_template="{{ role }} {{ name }}: {{ language }}"))
    assert own == "Poet Joy: English"
    assert "{{" in SYSTEM


def test_templates_are_rendered_in_a_sandbox():
    """A template that reaches for Python's insides, or cannot be read, is an error."""
    for template in (
        "{{ ().__class__.__bases__ }}",
        "{% if %}",
        "{{ 1 / 0 }}",
        "{{ x.y.z }}",
        LOOP,
    ):
        with pytest.raises(InvalidInput, match="the template that begins"):
            rendered(template, {})
    assert rendered("{{ question }}", {"question": "{{ 7 * 7 }} <b>"}) == "{{ 7 * 7 }} <b>"


def test_without_jinja2_build_says_what_to_install(monkeypatch):
    """The extra is named before anything is said."""
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(TemplatesMissing, match=r"alveus\[chat\]"):
        asyncio.run(table(says()))


# --- what is printed and logged -------------------------------------------------------------------


def test_nothing_is_printed_unless_asked(capsys):
    """`verbose` is off by default."""

    async def talk():
        joy, user = await table(says())
        await user.initiate_chat(joy, user, FIRST)

    asyncio.run(talk())
    assert capsys.readouterr().out == ""


def test_both_messages_are_in_the_log_that_agents_share(memory):
    """The log says who said what to whom, what was made of it, and by which model."""

    async def talk():
        shared = AgentMemory(ShortTermMemory(buffer_size=2))
        joy, user = await table(says(), memory=memory, shared=shared)
        await shared.gpts_memory.init(KEY)
        reply = await user.initiate_chat(joy, user, FIRST)
        asked, answered = await shared.gpts_memory.get_messages(KEY)
        assert (asked.sender, asked.receiver, asked.content) == ("Human", "Comedians", FIRST)
        assert (answered.sender, answered.receiver) == ("Comedians", "Human")
        assert (answered.model_name, answered.review_info) == ("scripted", "Pass(None)")
        assert json.loads(answered.action_report or "")["content"] == reply.content == ANSWER
        assert await log(joy) == await log(user) == [FIRST, ANSWER]
        channel = shared.gpts_memory.queue(KEY)
        assert channel is not None
        assert ANSWER in channel.get_nowait()

    asyncio.run(talk())


def test_agents_of_one_memory_remember_for_themselves(memory):
    """Each built agent has sets of its own, by role and name; another conversation sees nothing."""

    async def talk():
        shared = AgentMemory(ShortTermMemory(buffer_size=2))
        joy, user = await table(says(), memory=memory, shared=shared)
        tom, _ = await table(
            says(),
            memory=memory,
            shared=shared,
            joy=ConversableAgent(ProfileConfig("Tom", "Comedians")),
        )
        await user.initiate_chat(joy, user, FIRST)
        assert await fragments(tom) == await fragments(user) == []
        other = AgentContext("other")
        await joy.bind(other).build()
        await user.bind(other).build()
        assert await fragments(joy) == []
        assert await log(joy) == []

    asyncio.run(talk())


def test_the_reply_says_how_it_came_about():
    """`initiate_chat` returns the recipient's message."""

    async def talk():
        joy, user = await table(says())
        reply = await user.initiate_chat(recipient=joy, reviewer=user, message=FIRST)
        again = await user.initiate_chat(joy, message=SECOND)
        assert str(reply) == ANSWER
        assert (reply.name, reply.role, reply.rounds) == ("Joy", "Comedians", 0)
        assert (reply.success, reply.reason, reply.current_goal) == (True, None, FIRST)
        assert again.rounds == 1
        assert AgentMessage.from_dict(reply.to_dict()) == reply

    asyncio.run(talk())


# --- answers that are not good --------------------------------------------------------------------


class Strict(UserProxyAgent):
    """Approves the answer that it wants."""

    def __init__(self, wanted):
        super().__init__()
        self.wanted, self.seen = wanted, []

    async def review(self, message, censored):
        self.seen.append((message, censored.name))
        return message == self.wanted, None if message == self.wanted else f"not {message}"


def test_a_rejected_answer_is_written_with_its_reason_and_tried_again(memory):
    """The model is told why; what is approved in the end goes out."""

    async def talk():
        model = ScriptedChat(["a", "b", "good"])
        joy = ConversableAgent(ProfileConfig("Joy", "Comedians"))
        shared = AgentMemory(ShortTermMemory(buffer_size=9))
        joy, user = await table(model, memory=memory, joy=joy, shared=shared)
        strict = Strict("good")
        reply = await user.initiate_chat(joy, strict, "q")
        assert (reply.content, reply.success) == ("good", True)
        assert strict.seen == [(text, "Joy") for text in ("a", "b", "good")]
        assert await fragments(joy) == [
            "Question: q \nThought: a \nObservation: not a ",
            "Thought: b \nObservation: not b ",
            "Thought: good ",
        ]
        assert prompts(model)[1:] == [AGAIN.format(reason=f"not {text}") for text in "ab"]
        assert [m["content"] for m in model.requests[2].messages][2::2] == ["a", "b"]

    asyncio.run(talk())


def test_three_answers_are_tried_at_most(memory):
    """Then the last one comes back as what it is: not successful, with the reason."""

    async def talk():
        model = says("bad")
        joy, user = await table(model, memory=memory)
        reply = await user.initiate_chat(joy, Strict("good"), "q")
        assert len(model.requests) == 3
        assert (reply.success, reply.reason, str(reply.review_info)) == (
            False,
            "not bad",
            "Reject(not bad)",
        )
        assert [m.is_success for m in await joy.memory.gpts_memory.get_messages(KEY)] == [
            True,
            False,
        ]

    asyncio.run(talk())


def test_max_retry_count_says_how_many_answers_are_tried():
    """As in DB-GPT the first one counts; less than one is refused by `build`."""

    class Once(ConversableAgent):
        max_retry_count = 1

    async def talk():
        model = says("bad")
        joy, user = await table(model, joy=Once(ProfileConfig("Joy", "Comedians")))
        assert not (await user.initiate_chat(joy, Strict("good"), "q")).success
        assert len(model.requests) == 1
        joy.max_retry_count = 0
        with pytest.raises(InvalidInput, match="max_retry_count of agent 'Joy'"):
            await joy.build()

    asyncio.run(talk())


class Picky(Action):
    """Succeeds with the answer that it can use."""

    async def run(
        self, ai_message, resource=None, rely_action_out=None, need_vis_render=True, **kwargs
    ):
        fits = ai_message == "good"
        seen = None if fits else f"cannot use {ai_message}"
        return ActionOutput(
            f"did {ai_message}", is_exe_success=fits, observations=seen, action="pick"
        )


def test_a_failed_action_and_a_failed_check_are_tried_again_too():
    """What the action saw is the reason; `verify` has the last word."""

    class Checked(ConversableAgent):
        checks = 0

        async def verify(self, message, action_output):
            self.checks += 1
            return self.checks > 1, "check it again"

    async def talk():
        model = ScriptedChat(["bad", "good", "good"])
        joy, user = await table(model, joy=Checked(ProfileConfig("Joy", "Comedians")))
        await joy.bind(Picky()).build()
        reply = await user.initiate_chat(joy, user, "q")
        assert reply.content == "did good"
        told = [AGAIN.format(reason=reason) for reason in ("cannot use bad", "check it again")]
        assert prompts(model)[1:] == told
        assert await fragments(joy) == [
            "Thought: good \nAction: pick \nObservation: check it again ",
            "Thought: good \nAction: pick ",
        ]

    asyncio.run(talk())


@pytest.mark.parametrize("event_id", [None, "turn"])
def test_a_failing_model_raises_and_leaves_nothing(memory, event_id):
    """The model's own error; neither fragment nor message is there, and the next try is whole."""
    down = ModelUnavailable("scripted", "is down")

    async def talk():
        model = ScriptedChat(["bad", down, down, ANSWER, ANSWER])
        joy, user = await table(model, memory=memory)
        strict = Strict(ANSWER)
        for _ in range(2):
            with pytest.raises(ModelUnavailable) as raised:
                await user.initiate_chat(joy, strict, FIRST, event_id=event_id)
            assert raised.value is down
            assert await fragments(joy) == await log(joy) == []
        await user.initiate_chat(joy, strict, FIRST, event_id=event_id)
        assert await fragments(joy) == [P2]
        await user.initiate_chat(joy, strict, SECOND)
        assert await log(joy) == [FIRST, ANSWER, SECOND, ANSWER]
        assert prompts(model)[4] == P3

    asyncio.run(talk())


def test_a_server_that_refuses_leaves_nothing():
    """The same with the client that users have."""
    from alveus.compat.dbgpt import OpenAILLMClient

    async def talk(server):
        joy, user = await table(OpenAILLMClient("gpt-4o", server.url, "any"))
        with pytest.raises(ModelRefused):
            await user.initiate_chat(joy, user, FIRST)
        assert await fragments(joy) == await log(joy) == []

    with ChatServer([ChatReply(status=400)]) as server:
        asyncio.run(talk(server))


# --- what a subclass may do -----------------------------------------------------------------------


def test_write_memories_is_called_with_five_keywords_and_newer_ones_by_name(memory):
    """An override of the document's signature works for ever; one that names more gets more."""
    calls = []

    class Five(ConversableAgent):
        async def write_memories(self, **said):
            calls.append(said)

    class Six(ConversableAgent):
        async def write_memories(
            self, question, ai_message, action_output=None, check_pass=True, check_fail_reason=None,
            current_retry_counter=None,
        ):  # fmt: skip
            calls.append(current_retry_counter)

    async def talk():
        profile = ProfileConfig("Joy", "Comedians")
        joy, user = await table(says(), memory=memory, joy=Five(profile=profile))
        await user.initiate_chat(joy, user, "q")
        joy, user = await table(says("bad"), memory=memory, joy=Six(profile=profile))
        await user.initiate_chat(joy, Strict("good"), "q")

    asyncio.run(talk())
    assert calls == [
        {
            "question": "q",
            "ai_message": ANSWER,
            "action_output": ActionOutput(ANSWER),
            "check_pass": True,
            "check_fail_reason": None,
        },
        *range(3),
    ]


def test_memories_can_be_read_as_messages():
    """A list of messages goes between the system prompt and the question."""

    class Reading(ConversableAgent):
        async def read_memories(self, question):
            return [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]

    async def talk():
        model = says()
        joy, user = await table(model, joy=Reading(ProfileConfig("Joy", "Comedians")))
        await user.initiate_chat(joy, user, "q")
        said = [(m["role"], m["content"]) for m in model.requests[0].messages[1:]]
        assert said == [("user", "hi"), ("assistant", "hello"), ("user", "User input: q\n")]

    asyncio.run(talk())


@pytest.mark.parametrize("takes", [True, False])
def test_images_that_are_remembered_are_shown_to_models_that_take_them(takes):
    """Others are told of them in words."""
    image = "https://example.com/cat.png"

    class Reading(ConversableAgent):
        async def read_memories(self, question):
            return [{"role": "user", "content": "look", "urls": [image]}]

    async def talk():
        model = ScriptedChat([ANSWER], takes_images=takes)
        joy, user = await table(model, joy=Reading(ProfileConfig("Joy", "Comedians")))
        await user.initiate_chat(joy, user, "q")
        shown = model.requests[0].messages[1]
        assert shown.get("urls") == ([image] if takes else None)
        assert (image in shown["content"]) is not takes

    asyncio.run(talk())


@pytest.mark.parametrize("read", [5, {"role": "user"}, [5], [{"role": "user"}], [{"role": "me"}]])
def test_memories_that_are_none_are_named(read):
    """The method that gave them, and which of them; nothing is remembered."""

    class Reading(ConversableAgent):
        async def read_memories(self, question):
            return read

    async def talk():
        joy, user = await table(says(), joy=Reading(ProfileConfig("Joy", "Comedians")))
        with pytest.raises(InvalidInput, match=r"Reading\.read_memories\(\)"):
            await user.initiate_chat(joy, user, "q")
        assert await log(joy) == []

    asyncio.run(talk())


class Noting(Action):
    """Writes to a layer of the conversation, and may fail then."""

    def __init__(self, layer, error=None):
        self.layer, self.error = layer, error

    async def run(
        self, ai_message, resource=None, rely_action_out=None, need_vis_render=True, **kwargs
    ):
        await self.layer.write(AgentMemoryFragment(f"noted {ai_message}"))
        if self.error is not None:
            raise self.error
        assert rely_action_out is not None
        return ActionOutput(f"{ai_message} after {rely_action_out.content}", thoughts="I noted it")


def test_what_an_action_writes_belongs_to_the_exchange(store):
    """Actions go in turn, each with what the one before made; if one raises nothing is there."""

    async def talk():
        notes = ShortTermMemory(memory=store.key(KEY), label="notes")
        joy, user = await table(says("a"), memory=store)
        await joy.bind(Noting(notes)).build()
        reply = await user.initiate_chat(joy, user, "q")
        assert reply.content == "a after a"
        assert await fragments(joy) == ["user: q \nassistant: I noted it "]
        assert len(await notes.read("")) == 1
        await joy.bind(Noting(notes, OSError("no pen"))).build()
        with pytest.raises(OSError, match="no pen"):
            await user.initiate_chat(joy, user, "q")
        assert len(await notes.read("")) == 1

    asyncio.run(talk())


# --- without a model ------------------------------------------------------------------------------


def test_without_a_model_memory_answers_and_says_so(memory):
    """`LLMConfig()`: what is found of the question is told; nothing is made up."""

    async def talk():
        joy, user = await table(None, memory=memory)
        first = await user.initiate_chat(joy, user, "Which drink do I like?")
        assert first.content == "No model is bound, and memory holds nothing on it."
        await user.initiate_chat(joy, user, "I like green tea")
        for n in range(3):
            await user.initiate_chat(joy, user, f"Something else {n}")
        last = await user.initiate_chat(joy, user, "What do I like?")
        head, *found = last.content.splitlines()
        assert head.startswith("No model is bound")
        assert "- I like green tea" in found
        assert not [line for line in found if "No model" in line]
        assert last.model_name == "memory alone"

    asyncio.run(talk())


def test_what_memory_tells_is_the_newest_first_and_never_the_question():
    """Where search finds nothing: three pieces at most, each once."""

    async def talk():
        joy, user = await table(None, shared=AgentMemory(ShortTermMemory(buffer_size=9)))
        for text in ("one", "two", "three", "four", "four", "Xyzzy?"):
            await joy.memory.write(AgentMemoryFragment(text))
        reply = await user.initiate_chat(joy, user, "Xyzzy?")
        assert reply.content.splitlines()[1:] == ["- four", "- three", "- two"]

    asyncio.run(talk())


def test_layers_that_read_meaning_keep_doing_so_in_ram():
    """They stay where their embedder is, and hold what the exchange remembers."""

    async def talk():
        shared = AgentMemory(LongTermMemory(k=3))
        joy, user = await table(says(), shared=shared)
        await user.initiate_chat(joy, user, FIRST)
        assert await fragments(joy) == [P2]

    asyncio.run(talk())


def test_a_log_with_a_place_of_its_own_stays_there(store, tmp_path):
    """What was given a memory is not moved; what was used in RAM is not lost."""

    async def talk(own):
        shared = AgentMemory(ShortTermMemory(2), gpts_memory=GptsMemory(memory=own))
        joy, user = await table(says(), memory=store, shared=shared)
        await user.initiate_chat(joy, user, FIRST)
        assert await shared.gpts_memory.get_messages(KEY)
        assert own.key(KEY).sets() == ["gpts_messages"]

    with Memory.open(tmp_path / "log.db", embedder="words") as own:
        asyncio.run(talk(own))


# --- cut off, and killed --------------------------------------------------------------------------


def test_an_exchange_that_was_cut_off_goes_on_with_the_same_message(memory):
    """Said again it is the same exchange; another message waits until that one is over."""

    async def talk():
        asked = asyncio.Event()
        loop = asyncio.get_running_loop()

        class Slow(UserProxyAgent):
            async def review(self, message, censored):
                loop.call_soon_threadsafe(asked.set)
                await asyncio.Event().wait()
                return True, None

        model = says()
        joy, user = await table(model, memory=memory)
        talking = asyncio.create_task(user.initiate_chat(joy, Slow(), FIRST))
        await asked.wait()
        talking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await talking
        await user.initiate_chat(joy, user, FIRST)
        await user.initiate_chat(joy, user, SECOND)
        assert await log(joy) == [FIRST, ANSWER, SECOND, ANSWER]
        assert prompts(model) == [P1, P3]

    asyncio.run(talk())


class Cut(UserProxyAgent):
    """A reviewer in whose review an exchange is cut off."""

    async def review(self, message, censored):
        self.asked.set()
        await asyncio.Event().wait()
        return True, None

    async def cut_off(self, user, joy, **said):
        """Say something, and give up while the answer is reviewed."""
        self.asked = threading.Event()
        talking = asyncio.create_task(user.initiate_chat(joy, self, FIRST, **said))
        assert await asyncio.to_thread(self.asked.wait, LIMIT_S)
        talking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await talking


def test_exchanges_that_were_cut_off_go_on_in_their_order(store):
    """Of two that said the same, the older one is what is said again."""

    async def talk():
        joy, user = await table(says(), memory=store)
        await Cut().cut_off(user, joy, event_id="one")
        await Cut().cut_off(user, joy, event_id="two")
        assert [(await user.initiate_chat(joy, user, FIRST)).rounds for _ in range(2)] == [0, 1]
        assert await log(joy) == [FIRST, ANSWER] * 2

    asyncio.run(talk())


def test_an_exchange_that_nobody_says_again_is_not_answered(store, monkeypatch):
    """However long the runner of the other one has left, which would answer what comes next."""
    close = LocalRunner.aclose

    async def late(self, wait_s=10):
        await asyncio.sleep(0.2)
        await close(self, wait_s)

    async def talk():
        joy, user = await table(says(), memory=store)
        await Cut().cut_off(user, joy, event_id="one")
        await Cut().cut_off(user, joy, event_id="two")
        monkeypatch.setattr(LocalRunner, "aclose", late)
        assert (await user.initiate_chat(joy, user, FIRST)).rounds == 0
        assert await log(joy) == [FIRST, ANSWER]
        assert (await user.initiate_chat(joy, user, FIRST)).rounds == 1

    asyncio.run(talk())


def test_an_exchange_is_left_to_agents_of_its_conversation(store):
    """Another conversation on the same memory has other agents, whatever they are called."""

    async def talk():
        joy, user = await table(says(), memory=store)
        await Cut().cut_off(user, joy)
        other = AgentContext("other")
        there = (
            await ConversableAgent(joy.profile)
            .bind(store)
            .bind(other)
            .bind(LLMConfig(says("other")))
            .bind(BlankAction)
            .build()
        )
        me = await UserProxyAgent().bind(store).bind(other).build()
        await me.initiate_chat(there, me, FIRST)
        assert await log(joy) == []
        assert (await user.initiate_chat(joy, user, FIRST)).content == ANSWER
        assert await log(there) == [FIRST, "other"]

    asyncio.run(talk())


def test_exchanges_at_the_same_time_go_in_turn_each_with_its_reviewer(memory):
    """An agent answers one after the other, in the order in which it was spoken to."""

    async def talk():
        model = ScriptedChat(lambda asked: asked[-1]["content"].split()[-1])
        joy, user = await table(model, memory=memory)
        said = [f"q{n}" for n in range(6)]
        reviewers = [Strict(text) for text in said]
        pairs = zip(reviewers, said, strict=True)
        talks = (user.initiate_chat(joy, reviewer, text) for reviewer, text in pairs)
        replies = await asyncio.gather(*talks)
        assert [reply.current_goal for reply in replies] == said
        assert [reply.rounds for reply in replies] == [*range(6)]
        assert [len(reviewer.seen) for reviewer in reviewers] == [1] * 6

    asyncio.run(talk())


def test_an_action_cannot_wait_for_another_exchange_of_its_conversation():
    """It would wait for itself; nothing is remembered."""

    seated = []

    class Asking(Action):
        async def run(self, ai_message, **kwargs):
            joy, user = seated
            return (await user.initiate_chat(joy, user, "inner")).action_report

    async def talk():
        joy, user = await table(says())
        seated.extend([joy, user])
        await joy.bind(Asking).build()
        with pytest.raises(InvalidInput, match="cannot wait for a later run"):
            await asyncio.wait_for(user.initiate_chat(joy, user, "outer"), LIMIT_S)
        assert await log(joy) == []

    asyncio.run(talk())


def started(path, first, count, *named, crash=None):
    """Start a worker."""
    return warm.Popen(
        [sys.executable, str(WORKER), str(path), str(first), str(count), *named],
        env={**os.environ, "ALVEUS_CRASH": crash} if crash else {**os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told_by(path, first, count, *named, crash=None):
    """Run a worker; return whether it was killed, and what it told."""
    with started(path, first, count, *named, crash=crash) as child:
        return what_told(child)


def what_told(child):
    """Wait for a worker; return whether it was killed, and what it told."""
    try:
        out, err = child.communicate(timeout=LIMIT_S)
    finally:
        child.kill()
    assert child.returncode in (0, -9), err
    return child.returncode == -9, [json.loads(line) for line in out.splitlines()]


def worker(path, first, count, *named, crash=None):
    """Run a worker; return whether it was killed, what its model was asked, what was replied."""
    killed, lines = told_by(path, first, count, *named, crash=crash)
    asked = [line["prompt"] for line in lines if "prompt" in line]
    return killed, asked, [line["reply"] for line in lines if "reply" in line]


def test_killed_between_the_turns_it_remembers(tmp_path):
    """A process of its own for each turn: the second one is given P3."""
    _, first, _ = worker(tmp_path / "m.db", 0, 1)
    _, second, _ = worker(tmp_path / "m.db", 1, 1)
    assert (first, second) == ([P1], [P3])


def test_killed_inside_the_second_turn_it_goes_on(tmp_path):
    """Said again, or followed by another message: the turn is there once, and was given P3."""
    for first, count in ((1, 1), (2, 1)):
        path = tmp_path / f"{first}.db"
        killed, asked, _ = worker(path, 0, 2, crash="model:2")
        assert killed
        assert asked == [P1, P3]
        _, asked, _ = worker(path, first, count)
        assert asked[0] == P3
        said = MESSAGES[: first + 1]
        with Memory.open(path) as memory:
            kept = [item.text for item in memory.key(KEY).set("gpts_messages")]
        assert kept == [text for message in said for text in (message, ANSWER)]


def test_two_processes_that_go_on_with_one_exchange_hold_it_once(tmp_path):
    """Both find it cut off: one of them answers, both get the reply, and so with the next."""
    path = tmp_path / "m.db"
    killed, _, _ = worker(path, 0, 1, "named", crash="model:1")
    assert killed
    with started(path, 0, 2, "named") as one, started(path, 0, 2, "named") as two:
        told = [line for child in (one, two) for line in what_told(child)[1]]
    assert sorted(line["prompt"] for line in told if "prompt" in line) == sorted([P1, P3])
    assert [line["reply"] for line in told if "reply" in line] == [ANSWER] * 4
    with Memory.open(path) as memory:
        kept = [item.text for item in memory.key(KEY).set("gpts_messages")]
    assert kept == [FIRST, ANSWER, SECOND, ANSWER]


def test_what_an_action_does_by_a_durable_call_is_done_once(tmp_path):
    """Killed when the mail was sent, the exchange goes on, and sends no second one."""
    path = tmp_path / "m.db"
    killed, told = told_by(path, 0, 1, "mailed", crash="mail:1")
    assert killed
    assert [*told[1].values()] == [ANSWER]
    killed, told = told_by(path, 0, 1, "mailed")
    assert (killed, told) == (False, [{"reply": ANSWER}])


def test_an_exchange_passes_its_context_to_what_names_it():
    """An action, or an `act`, that takes `ctx` can write to the run's memory and its key's."""

    class Counting(Action):
        async def run(
            self, ai_message, resource=None, rely_action_out=None, need_vis_render=True, *, ctx, **_
        ):  # fmt: skip
            ctx.short_term_memory.set("turns", ctx.short_term_memory.get("turns", 0) + 1)
            return ActionOutput(ai_message, observations=ctx.key)

    class Acting(ConversableAgent):
        async def act(self, message, *, ctx=None):
            assert ctx is not None
            return await super().act(message, ctx=ctx)

    class Older(ConversableAgent):
        async def act(self, message):
            return ActionOutput(message)

    async def talk():
        joy, user = await table(says(), joy=Acting(ProfileConfig("Joy", "Comedians")))
        await joy.bind(Counting).build()
        for _ in range(2):
            reply = await user.initiate_chat(joy, user, "q")
        assert reply.action_report == ActionOutput(ANSWER, observations=KEY)
        assert joy.run_memory.key(KEY).short_term.get("turns") == 2
        joy, user = await table(says(), joy=Older(ProfileConfig("Joy", "Comedians")))
        assert (await user.initiate_chat(joy, user, "q")).content == ANSWER

    asyncio.run(talk())


@pytest.mark.parametrize("part", range(4))
def test_killed_at_any_commit_the_conversation_is_as_if_undisturbed(tmp_path, part):
    """With event ids: nothing is lost, nothing is there twice, and no known answer is asked for."""
    kills = 0
    for n in range(part, KILLS, 4):
        path = tmp_path / f"{n}.db"
        step = "item" if part == 3 else "commit"
        crash = f"{step}:{'before' if n // 4 % 2 else 'after'}:{1 + n % 5}"
        killed, before, told = worker(path, 0, 2, "named", crash=crash)
        kills += killed
        _, after, replies = worker(path, 0, 2, "named")
        assert len(told) <= len(replies) == 2
        assert len(before) + len(after) <= 3
        assert list(dict.fromkeys([*before, *after])) == [P1, P3]
        with Memory.open(path) as memory:
            key = memory.key(KEY)
            kept = [item.text for item in key.set("gpts_messages")]
            own = [item.text for item in key.set("Comedians/Joy.short_term")]
        assert kept == [FIRST, ANSWER, SECOND, ANSWER]
        assert own == [P2, SAID.format(SECOND)]
    assert kills


def test_an_event_id_is_of_one_message(memory):
    """Said again it returns the first reply; with another message it is refused."""

    async def talk():
        model = says()
        joy, user = await table(model, memory=memory)
        first = await user.initiate_chat(joy, user, FIRST, event_id="1")
        assert await user.initiate_chat(joy, user, FIRST, event_id="1") == first
        with pytest.raises(IdempotencyConflict):
            await user.initiate_chat(joy, user, SECOND, event_id="1")
        with pytest.raises(InvalidName, match="an event id"):
            await user.initiate_chat(joy, user, SECOND, event_id="")
        assert len(model.requests) == 1

    asyncio.run(talk())


# --- what cannot be ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [None, "gpt-4o", 5, ShortTermMemory(), ScriptedChat([]), ConversableAgent, Action, Noting],
)
def test_what_cannot_be_bound_is_refused(target):
    """The error lists what can be."""
    with pytest.raises(InvalidInput, match=r"AgentContext, an LLMConfig|bind an instance"):
        ConversableAgent().bind(target)


@pytest.mark.parametrize(
    ("parts", "missing"),
    [
        ([LLMConfig(), BlankAction, ProfileConfig("a", "b")], "an AgentContext$"),
        ([AgentContext("c"), BlankAction, ProfileConfig("a", "b")], "an LLMConfig$"),
        (
            [AgentContext("c"), LLMConfig(), ProfileConfig("a", "b")],
            "an Action, such as BlankAction$",
        ),
        ([AgentContext("c"), LLMConfig(), BlankAction], "a ProfileConfig$"),
        ([], "an AgentContext, and a ProfileConfig, and an LLMConfig, and an Action"),
    ],
)
def test_build_says_what_is_missing(parts, missing):
    """Which part, by its name; a human needs a context only."""
    agent = ConversableAgent()
    for part in parts:
        agent.bind(part)
    with pytest.raises(InvalidInput, match=missing):
        asyncio.run(agent.build())
    with pytest.raises(InvalidInput, match="not built"):
        _ = agent.memory
    asyncio.run(UserProxyAgent().bind(AgentContext("c")).build())


def test_what_makes_no_conversation_is_refused():
    """The agents are built, in one conversation, and the message is a text."""

    async def talk():
        joy, user = await table(says())
        with pytest.raises(InvalidInput, match="non-empty str"):
            await user.initiate_chat(joy, user)
        with pytest.raises(InvalidInput, match="recipient must be"):
            await user.initiate_chat("Joy", message="q")  # pyright: ignore[reportArgumentType] - what is refused
        with pytest.raises(InvalidInput, match="reviewer must be"):
            await user.initiate_chat(joy, "me", "q")  # pyright: ignore[reportArgumentType] - what is refused
        with pytest.raises(InvalidInput, match="has no model to answer"):
            await joy.initiate_chat(user, message="q")
        far = await UserProxyAgent().bind(AgentContext("far")).build()
        with pytest.raises(InvalidInput, match="'far'"):
            await far.initiate_chat(joy, message="q")
        with pytest.raises(InvalidInput, match="not built"):
            await user.initiate_chat(joy.bind(BlankAction), message="q")
        assert "not built" in repr(joy)
        assert "RAM" in repr(user)

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("kind", "fields", "error"),
    [
        (AgentContext, {"conv_id": ""}, InvalidName),
        (AgentContext, {"conv_id": "c", "temperature": 3}, InvalidInput),
        (AgentContext, {"conv_id": "c", "max_new_tokens": 0}, InvalidInput),
        (AgentContext, {"conv_id": "c", "language": 5}, InvalidInput),
        (ProfileConfig, {"name": "", "role": "r"}, InvalidName),
        (ProfileConfig, {"name": "n", "role": "r", "user_prompt_template": b"t"}, InvalidInput),
        (ProfileConfig, {"name": "n", "role": "r", "constraints": 5}, InvalidInput),
        (ProfileConfig, {"name": "n", "role": "r", "resources": ["a", 5]}, InvalidInput),
        (LLMConfig, {"llm_client": "gpt-4o"}, InvalidInput),
    ],
)
def test_parts_that_cannot_be_are_refused(kind, fields, error):
    """As they are made, not as they are used."""
    with pytest.raises(error):
        kind(**fields)


def test_an_action_output_says_what_it_cannot_be_made_of():
    """An unknown field is named, and so is the one that is needed."""
    with pytest.raises(InvalidInput, match="'contents'"):
        ActionOutput.from_dict({"content": "c", "contents": 1})
    with pytest.raises(InvalidInput, match="needs the field 'content'"):
        ActionOutput.from_dict({})


def test_a_review_that_is_no_verdict_is_named():
    """Whether and why; nothing is guessed from something else."""

    class Vague(UserProxyAgent):
        async def review(self, message, censored):
            return "fine"

    async def talk():
        joy, user = await table(says())
        with pytest.raises(InvalidInput, match=r"Vague\.review must return"):
            await user.initiate_chat(joy, Vague(), "q")
        assert await fragments(joy) == await log(joy) == []

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        (
            {"content": None},
            "the content of the ActionOutput that Wrong.run returned must be a str,",
        ),
        ({"is_exe_success": "no"}, "must be True or False"),
        ({"thoughts": float("nan")}, "the thoughts of"),
        ({"view": object()}, "must be a str or None"),
    ],
)
def test_an_output_of_other_types_is_named(fields, wrong):
    """A field that cannot be kept, or would count as a success, is refused; the next is whole."""
    wrong_ones = dict(fields)

    class Wrong(Action):
        async def run(self, ai_message, **kwargs):
            return ActionOutput(**{"content": ai_message, **wrong_ones})

    async def talk():
        joy, user = await table(says())
        await joy.bind(Wrong).build()
        with pytest.raises(InvalidInput, match=wrong):
            await user.initiate_chat(joy, user, "q")
        wrong_ones.clear()
        assert (await user.initiate_chat(joy, user, "q")).content == ANSWER

    asyncio.run(talk())


@pytest.mark.parametrize("name", ["read_memories", "write_memories", "review", "act", "verify"])
def test_an_override_that_is_not_async_is_named(name):
    """Which method, and how it has to begin; nothing is remembered."""

    class Plain(ConversableAgent):
        pass

    async def talk():
        setattr(Plain, name, lambda self, *args, **kwargs: None)
        joy, user = await table(says(), joy=Plain(ProfileConfig("Joy", "Comedians")))
        with pytest.raises(InvalidInput, match=rf"Plain\.{name} must be async: async def {name}\("):
            await user.initiate_chat(joy, joy, "q")
        assert await log(joy) == []

    asyncio.run(talk())


def test_a_reply_that_cannot_be_kept_leaves_nothing(store):
    """Whatever fails is raised as it is, and no run is left behind; nothing is warned of."""

    class Late(ConversableAgent):
        async def act(self, message):
            return ActionOutput(message, view="\ud800")

    async def talk():
        joy, user = await table(says(), memory=store, joy=Late(ProfileConfig("Joy", "Comedians")))
        with pytest.raises(InvalidValue, match="lone surrogate"):
            await user.initiate_chat(joy, user, "q")
        assert await fragments(joy) == await log(joy) == []

    asyncio.run(talk())


def test_an_exchange_that_fails_warns_of_nothing(caplog):
    """Its error says it all: nothing is at work any more."""

    async def talk():
        joy, user = await table(ScriptedChat([ModelUnavailable("scripted", "is down")]))
        with pytest.raises(ModelUnavailable):
            await user.initiate_chat(joy, user, "q")

    asyncio.run(talk())
    assert caplog.records == []


def test_an_action_that_returns_something_else_is_named():
    """A user's action is checked before anything is remembered."""

    class Wrong(BlankAction):
        async def run(self, *args, **kwargs):
            return "text"

    async def talk():
        joy, user = await table(says())
        await joy.bind(Wrong).build()
        with pytest.raises(InvalidInput, match=r"Wrong\.run must return an ActionOutput"):
            await user.initiate_chat(joy, user, "q")
        with pytest.raises(InvalidInput, match="action_output"):
            await joy.write_memories("q", "a")
        assert await fragments(joy) == []

    asyncio.run(talk())
