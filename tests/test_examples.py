"""The examples are run as their readers run them, and do what their pages say."""

from __future__ import annotations

import importlib
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from alveus import Agent, InputEvent, LocalRunner, Memory, OutputEvent, action
from alveus.agents.windows import Observation, Reply, Stamp
from alveus.embed import open_embedder
from alveus.llm import OpenAIChat, ScriptedChat
from alveus.text.messages import Message
from pages import ROOT
from waiting import LIMIT_S

EXAMPLES = ROOT / "examples"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch):
    """Import modules of an example, as if its folder were the current one."""
    names: set[str] = set()

    def module(example: str, name: str) -> Any:
        folder = EXAMPLES / example
        monkeypatch.syspath_prepend(folder)
        names.update(path.stem for path in folder.glob("*.py"))
        return importlib.import_module(name)

    yield module
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture(params=["ram", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return ":memory:" if request.param == "ram" else str(tmp_path / "app.db")


def ran(example: str, folder: Path, *arguments: str, program: str = "main.py") -> str:
    """What an example prints when it is run in a process of its own."""
    command = [sys.executable, str(EXAMPLES / example / program), *arguments]
    done = subprocess.run(
        command, cwd=folder, check=False, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_on_the_page():
    """Who looks for an example finds it, with a page on top."""
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    folders = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
    assert folders
    for folder in folders:
        if folder.name in ("flink", "postgres", "server"):  # need what does not come with it
            assert f"({folder.name}/" in page
            continue
        first = "main.py" if (folder / "main.py").exists() else "memory.py"
        assert f"({folder.name}/{first})" in page
        assert (folder / first).read_text(encoding="utf-8").startswith('"""')


# --- 00: short-term memory ----------------------------------------------------------------------

LEFT = {
    "x": 100,
    "y": "abc",
    "z": {"m": 1.0, "n": {"j": True}},
    "copy": {"m": 0.5, "n": {"j": True}},
}


def test_00_short_term_memory_lasts_and_is_of_one_key(load, url):
    """Later runs of the key see all of it, other keys nothing; sensory memory is empty again."""
    main = load("00_short_term_memory", "main")
    first, second, other = main.main(url)
    assert first == second == {"short_term": LEFT, "sensory": {}}
    assert other == {"short_term": {}, "sensory": {}}


def test_00_a_second_process_finds_it(tmp_path):
    """In a file it is there for good."""
    for _ in range(2):
        shown = ran("00_short_term_memory", tmp_path, "app.db")
        assert f"Ada: {{'short_term': {LEFT}" in shown
        assert "Bob: {'short_term': {}" in shown


def test_00_the_root_is_an_object_like_any_other(load, url):
    """What a context gives is a MemoryObject, and what one run wrote to sensory memory is gone."""
    compat = importlib.import_module("alveus.compat.flink_agents")
    seen: list[Any] = []

    @compat.action(InputEvent)
    def look(event, ctx):
        for root in (ctx.get_short_term_memory(), ctx.get_sensory_memory()):
            assert isinstance(root, compat.MemoryObject)
            seen.append(root.get_field_names())
            root.new_object("z").set("n.j", True)
            root.delete("copy")
            root.set("copy", root.get("z"))

    with Memory.open(url) as memory, LocalRunner(Agent("a", actions=[look]), memory) as runner:
        runner.handle("ada", 1)
        runner.handle("ada", 2)
    assert seen == [[], [], ["z", "copy"], []]


# --- 01: the four memories ----------------------------------------------------------------------


def test_01_history_is_of_one_key_and_knowledge_of_all(load, url):
    """Another key has no history, and the same rules; so has an agent of another application."""
    seen = load("01_four_memories", "main").main(url)
    rules = ["no sugar after nine"]
    assert seen["ada"] == {
        "sensory": {},
        "chat_history": ["user: I like tea", "assistant: Noted"],
        "house_rules": rules,
    }
    nothing_but_rules = {"sensory": {}, "chat_history": [], "house_rules": rules}
    assert seen["bob"] == nothing_but_rules
    if url != ":memory:":
        assert seen["a gardener"] == nothing_but_rules


def test_01_what_ends_leaves_knowledge_alone(load, url):
    """Neither the end of runs nor emptying a key's memories touches what all share."""
    main = load("01_four_memories", "main")
    with Memory.open(url) as memory:
        agent = Agent("four", actions=[main.four, main.look])
        with LocalRunner(agent, memory) as runner:
            runner.handle("ada", "hello")
            before = memory.knowledge.set("house_rules").list()
            ada = memory.key("ada")
            ada.set("chat_history").clear()
            ada.short_term.clear()
            (seen,) = runner.handle("ada", main.Look())
        assert seen["chat_history"] == []
        assert seen["house_rules"] == ["no sugar after nine"]
        assert [item.id for item in memory.knowledge.set("house_rules")] == [i.id for i in before]


def test_01_a_second_process_finds_it(tmp_path):
    """In a file it is there for good."""
    first = ran("01_four_memories", tmp_path, "app.db")
    assert "a gardener" in first
    assert ran("01_four_memories", tmp_path, "app.db") == first


# --- 02: the shopping assistant -----------------------------------------------------------------


def test_02_the_assistant_remembers_who_it_talks_to(load, tmp_path):
    """What Ada said last week decides what she is offered; Bob is offered the other thing."""
    main = load("02_shopping_assistant", "main")
    model = main.ScriptedModel()
    place = tmp_path / "shop.db"
    (hello,) = main.talk(place, model, main.FIRST_WEEK)
    assert hello.startswith("Noted")
    ada, bob, rain, again = main.talk(place, model, main.SECOND_WEEK)
    assert "fleece" in ada
    assert "merino" in bob
    assert "rain jacket" in rain
    assert again == rain
    with Memory.open(place, space="shop") as memory:
        carts = {name: memory.key(name).short_term.get("cart") for name in ("ada", "bob")}
        assert len(memory.key("ada").set("remarks")) == 2
        assert memory.key("bob").sets() == []
    assert carts == {"ada": ["fleece pullover", "rain jacket"], "bob": ["merino pullover"]}


def test_02_each_memory_is_in_the_prompt(load, tmp_path):
    """The model sees what belongs to the customer, and is asked once per turn."""
    main = load("02_shopping_assistant", "main")
    model = main.ScriptedModel()
    main.talk(tmp_path / "shop.db", model, main.FIRST_WEEK)
    main.talk(tmp_path / "shop.db", model, main.SECOND_WEEK)
    assert len(model.prompts) == 4
    _, ada, bob, rain = model.prompts
    assert "once said: Wool makes me itch" in ada
    assert "once said" not in bob
    assert "We sell: Rain jacket" in rain
    assert "In the cart: fleece pullover" in rain
    assert "stove" not in rain


def test_02_it_shows_itself(tmp_path):
    """Without a file it makes its own, and leaves nothing behind."""
    shown = ran("02_shopping_assistant", tmp_path)
    assert "ada's cart: fleece pullover, rain jacket" in shown
    assert "The model was asked 4 times" in shown
    assert list(tmp_path.iterdir()) == []


# --- 03: messages and their memory --------------------------------------------------------------


def test_03_messages_are_kept(load, url, tmp_path, monkeypatch):
    """The document's program runs in RAM and in a file, where later visits find what was said."""
    monkeypatch.chdir(tmp_path)
    main = load("03_messages", "main")
    visits = [main.main(url) for _ in range(2)]
    lasts = url != ":memory:"
    assert visits[0] == ["Ada: This is visit 1."]
    assert visits[1] == ["Ada: This is visit 1.", "Ada: This is visit 2."][: 1 + lasts]


def test_03_the_program_as_it_stands(load, tmp_path, monkeypatch):
    """With the memory that the document makes: in RAM."""
    monkeypatch.chdir(tmp_path)
    load("03_messages", "program").main(
        importlib.import_module("alveus.agents.messages").TemporaryMemory()
    )


def test_03_a_message_is_shown(tmp_path):
    """`echo=True` shows a message where a program wants it shown."""
    assert "Bob: hello\n" in ran("03_messages", tmp_path)


# --- 04: agents with memory ---------------------------------------------------------------------


def test_04_the_agent_remembers_the_previous_turn(load, tmp_path, monkeypatch):
    """In RAM and in a file, with the program of the document as it is."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    main = load("04_agents_with_memory", "main")
    first, second = main.main(tmp_path / "memory.db")
    assert first.startswith("Sure thing, Bob!")
    assert second == "Your name is Bob!"
    prompts = [request.messages[-1]["content"] for request in main.program.llm_client.requests]
    assert ["My name is bob" in prompt for prompt in prompts] == [True] * 4


def test_04_a_second_process_remembers(tmp_path, monkeypatch):
    """What the first one was told is in the first prompt of the second."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    first, second = (ran("04_agents_with_memory", tmp_path, "memory.db") for _ in range(2))
    assert first.endswith("Joy, from the file: Your name is Bob!\n")
    before, _, after = second.rpartition("User (to Joy)")[0].rpartition("User (to Joy)")
    assert before
    assert "user: What's my name?" in after


# --- 05: killed and finished --------------------------------------------------------------------


def test_05_a_second_process_finishes_what_a_killed_one_began(tmp_path):
    """What was over is not run again; what was paid is not paid again; nothing is there twice."""
    shown = ran("05_killed_and_finished", tmp_path)
    first, second = shown.split("the second process")
    assert "books a flight" in first
    assert "is killed" in first
    assert "books a flight" not in second
    assert "books a hotel" in second
    assert "Lisbon is booked for 420 euros" in second
    _, _, left = second.partition("what is left")
    payments, receipts, trips = (line.strip() for line in left.strip().splitlines())
    paid = payments.removeprefix("payments: ").split(", ")
    assert len(paid) == 2
    kept = receipts.removeprefix("receipts: ").split(", ")
    assert kept == [each.rpartition(" ")[0] for each in paid]
    assert trips == "trips:    A trip to Lisbon for 420 euros."


# --- 11: custom memory --------------------------------------------------------------------------

STRATUM, PROMPT = "s", Message("p")


def exchange(name, length=0, **kwargs):
    """An observation whose reply has so many characters."""
    return Observation(name, Reply(Message(name.lower() * length, "assistant"), **kwargs))


def shown(window, prompt: Message | None = PROMPT):
    """The first letters of what a window shows, a letter for each pair."""
    letters = [str(message)[:1].upper() for message in window.context(prompt)]
    return "".join(a for a, b in zip(letters, [*letters[1:], ""], strict=True) if a != b)


def test_11_the_example_keeps_what_matters(load):
    """The vectors of `Priority`, T24 to T27: scores, two of three, a third one, equal ones."""
    example = load("11_custom_memory", "memory")
    window = example.PriorityMemory(2, STRATUM)
    scores = [window.score_importance(exchange("A", n)) for n in (0, 100, 999, 1000, 5000)]
    assert scores == [0, 0.1, 0.999, 1, 1]
    gone = [window.commit(exchange(n, size)) for n, size in (("A", 100), ("B", 500), ("C", 300))]
    assert [[str(o.query) for o in each] for each in gone] == [[], [], ["A"]]
    assert shown(window) == "SBCP"
    window.commit(exchange("D", 2000))
    assert shown(window) == "SBDP"
    window.purge()
    assert shown(window, None) == "S"
    for name in "ABC":
        window.commit(exchange(name, 500))
    assert shown(window) == "SBCP"


def test_11_it_shows_what_it_kept_and_why(tmp_path, monkeypatch):
    """Without a key it has a scripted model, and no network."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    printed = ran("11_custom_memory", tmp_path, program="memory.py")
    assert "kept       What is an alveus?   its importance is 0.324" in printed
    assert "forgotten  Hello!" in printed
    assert "With the next question scripted is told 8 messages" in printed


def test_11_with_a_key_it_asks_that_model(load, monkeypatch):
    """By the protocol of OpenAI."""
    example = load("11_custom_memory", "memory")
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    monkeypatch.setenv("MODEL", "mine")
    asked = example.model()
    assert (type(asked), asked.name) == (OpenAIChat, "mine")


def test_11_in_a_file_it_survives_a_kill(tmp_path):
    """Each question was asked once, in whichever process; each exchange is there once."""
    printed = ran("11_custom_memory", tmp_path, program="durable.py")
    first, _, second = printed.partition("the second process")
    assert "has an answer, and dawdles" in first
    assert "is killed" in first
    _, _, left = second.partition("what is left")
    asked, *kept = left.strip().splitlines()
    assert asked.count("?") == 4
    assert len(kept) == 3
    assert "Who named it?" not in "".join(kept)


def test_11_the_document_s_program_runs_unchanged(load):
    """What a user of thinker writes, its faults included; values T23 to T28."""
    program = load("11_custom_memory", "program")
    priority = program.PriorityMemory(2, STRATUM)
    assert [priority.score_importance(exchange("A", n)) for n in (0, 100, 5000)] == [0, 0.1, 1]
    for name, length in (("A", 100), ("B", 500), ("C", 300)):
        priority.commit(exchange(name, length))
    assert shown(priority) == "SBCP"
    priority.commit(exchange("D", 2000))
    assert shown(priority) == "SBDP"
    priority.purge()
    for name, length in (("A", 900), ("B", 800), ("C", 10)):  # the newest matters least: it goes
        priority.commit(exchange(name, length))
    assert shown(priority) == "SABP"

    importance = program.ImportanceMemory(2, STRATUM)
    for hours, length, value in (
        (0, 100, 4.6052),
        (1, 100, 2.3026),
        (24, 1000, 0.2763),
        (0, 1, 0),
        (0, 10, 2.3026),
        (0, 0, 0),
    ):
        observed = exchange("A", length)
        observed.created = Stamp.at(datetime.now(UTC) - timedelta(hours=hours))
        assert importance.score_importance(observed) == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize(
    ("cap", "scores", "told"), [(1, (0.9, 0.5, 0.2), "CPA"), (2, (0.9, 0.2), "ABPA")]
)
def test_11_the_document_s_hybrid_repeats_and_misplaces(load, cap, scores, told):
    """thinker, values T29 and T30: what is important comes after the prompt, and comes twice."""
    program = load("11_custom_memory", "program")
    hybrid = program.HybridMemory(program.Stream(cap, ""), 0.5)
    for name, score in zip("ABC", scores, strict=False):
        hybrid.commit(exchange(name, 1, importance=score))
    assert shown(hybrid) == told
    hybrid.purge()
    assert hybrid.context(PROMPT) == [PROMPT]


def test_11_the_document_s_semantic_memory(load):
    """thinker: an observation has two vectors, and the three best of at most five are shown."""
    program = load("11_custom_memory", "program")

    class Vectors:
        def __init__(self):
            self.held = []

        def insert(self, observed):
            self.held.append(observed)

        def search(self, vector, top_k):
            def near(observed):
                return max(observed.query.relevance @ vector, observed.reply.relevance @ vector)

            return sorted(self.held, key=near, reverse=True)[:top_k]

        def clear(self):
            self.held.clear()

    semantic = program.SemanticMemory(open_embedder("static"), Vectors())
    for query, reply in (("a cat", "it purrs"), ("a dog", "it barks"), ("a car", "it hoots")):
        semantic.commit(Observation(query, reply))
    told = [str(message) for message in semantic.context(Message("which one barks?"))]
    assert told[:2] == ["a dog", "it barks"]
    assert len(told) == 7
    semantic.purge()
    assert len(semantic.context(Message("p"))) == 1


def test_11_the_document_s_main(load):
    """thinker: the agent is made from five things, prompted once, and need not be closed."""
    program = load("11_custom_memory", "program")
    model = ScriptedChat(["a vault"])
    found = program.main(model, lambda asked: f"{asked}?", str, lambda _: "return", "What is it")
    assert found == "a vault"
    assert [m["content"] for m in model.requests[0].messages] == [
        "You are a helpful assistant",
        "What is it?",
    ]


def test_actions_of_both_kinds_live_in_one_agent():
    """An agent may mix alveus's own actions with those of Flink Agents: each has its context."""
    compat = importlib.import_module("alveus.compat.flink_agents")

    @compat.action(InputEvent)
    def theirs(event, ctx):
        ctx.send_event(OutputEvent(type(ctx.long_term_memory).__name__))

    @action(InputEvent)
    def ours(event, ctx):
        ctx.send_event(OutputEvent(type(ctx.long_term_memory).__name__))

    agent = Agent("both", actions=[theirs, ours])
    with Memory.open() as memory, LocalRunner(agent, memory) as runner:
        assert runner.handle("ada", None) == ("FlinkLongTermMemory", "KeySets")
