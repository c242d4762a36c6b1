"""Messages as models are told them, and agents that reply to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from alveus import Memory
from alveus.compat.agentscope import AgentBase, DialogAgent, Msg, TemporaryMemory, deserialize
from alveus.errors import InvalidInput, ModelUnavailable
from alveus.llm import OpenAIChat, ScriptedChat
from alveus.testing import ChatServer

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def test_a_message_keeps_name_role_and_content_for_a_model():
    """A model is told these three of a `Msg`, and nothing else that it has."""
    model = ScriptedChat(["yes"])
    model.complete([Msg("Ada", "Hello?", role="user", mood="calm")])
    assert model.requests[0].messages == ({"role": "user", "content": "Hello?", "name": "Ada"},)


@pytest.mark.parametrize("role", [None, "", "gone"])
def test_a_message_without_a_role_is_sent_as_the_assistants(role: str | None):
    """A message that says no role, an empty one or None is the assistant's."""
    items = {"name": "Ada", "content": "Hello?", "role": role}
    message = Msg.from_items({k: v for k, v in items.items() if v != "gone"})
    assert message.to_chat() == {"role": "assistant", "content": "Hello?", "name": "Ada"}


@pytest.mark.parametrize(
    ("content", "url", "text"),
    [
        ("look", "https://example.org/a.png", "look\nhttps://example.org/a.png"),
        ("look", ["a.png", "b.png"], "look\na.png\nb.png"),
        (None, "a.png", "a.png"),
        ("look", (), "look"),
        ("", None, ""),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], None, "a\nb"),
        ({"seat": "window"}, None, '{"seat": "window"}'),
        ([1, 2], None, "[1, 2]"),
        ("look", PIXEL, "look\ndata:image/png;base64"),
    ],
)
def test_contents_and_urls_reach_a_model_as_text(content: object, url: object, text: str):
    """Urls follow the content, a line each, and data is named; no content is lost on the way."""
    model = ScriptedChat(["yes"])
    model.complete([Msg("Ada", content, url, role="user")])  # pyright: ignore[reportArgumentType] - tuples and lists
    (told,) = model.requests[0].messages
    assert told == {"role": "user", "content": text, "name": "Ada"}


def test_images_are_parts_for_a_model_that_takes_them():
    """In the OpenAI protocol: after the text, each by itself; what is no image stays text."""
    urls = ["https://e.org/A.PNG?size=9", "notes.txt", PIXEL, "a.png", "https://[e.org/b.png"]
    looks = Msg("Ada", "look", urls, role="user")
    with ChatServer(["A cat."]) as server:
        chat = OpenAIChat("small", base_url=server.url, api_key="any", takes_images=True)
        with chat:
            assert chat.takes_images
            assert chat.complete([looks, Msg("bot", "And this?", PIXEL)]) == "A cat."
            assert "".join(chat.stream([Msg("Ada", None, PIXEL, role="user")])) == "A cat."
        first, second = (asked.body["messages"] for asked in server.requests)
    assert first == [
        {
            "role": "user",
            "name": "Ada",
            "content": [
                {"type": "text", "text": "look\nnotes.txt\na.png\nhttps://[e.org/b.png"},
                {"type": "image_url", "image_url": {"url": urls[0]}},
                {"type": "image_url", "image_url": {"url": PIXEL}},
            ],
        },
        {"role": "assistant", "name": "bot", "content": "And this?\ndata:image/png;base64"},
    ]
    assert second[0]["content"] == [{"type": "image_url", "image_url": {"url": PIXEL}}]


def test_an_agent_shows_its_model_images():
    """Also those that it remembers, if its model takes images; another is told of them."""
    seen = [Msg("Ada", "look", PIXEL, role="user"), Msg("Ada", "And?", role="user")]
    for urls, text in (([PIXEL], "look"), (None, "look\ndata:image/png;base64")):
        model = ScriptedChat(["A cat.", "Grey."], takes_images=urls is not None)
        bot = DialogAgent("bot", model=model)
        for message in seen:
            bot.reply(message)
        told = model.requests[1].messages[0]
        assert (told["content"], told.get("urls")) == (text, urls)
        assert bot.memory.get_memory()[0] == seen[0]


def test_several_urls_are_a_list():
    """However they are given: a message is the same after it was kept, or serialised."""
    message = Msg("Ada", "look", ("a.png", "b.png"))
    assert message.url == ["a.png", "b.png"]
    memory = TemporaryMemory()
    memory.add(message)
    assert memory.get_memory() == [message] == [deserialize(message.serialize())]


def test_a_message_that_cannot_be_told_is_an_error():
    """A url that is none, a message without content, an unknown role: nothing is asked."""
    model = ScriptedChat(["yes"])
    for wrong in (
        Msg("Ada", "look", [1]),  # pyright: ignore[reportArgumentType] - the wrong url
        Msg.from_items({"name": "Ada", "role": "user"}),
        Msg("Ada", "look", role="judge"),
    ):
        with pytest.raises(InvalidInput):
            model.complete([wrong])
    assert model.requests == ()


def test_an_agent_remembers_what_it_got_and_what_it_answered():
    """`reply` adds both to `memory`, a `TemporaryMemory` by default, and tells the model of it."""
    model = ScriptedChat(["Hello, Ada.", "You are Ada."])
    bot = DialogAgent("bot", "Be brief.", model=model)
    first = Msg("Ada", "I am Ada.", role="user")
    answer = bot.reply(first)
    second = Msg("Ada", "Who am I?", role="user")
    last = bot(second)
    assert type(bot.memory) is TemporaryMemory
    assert bot.memory.get_memory() == [first, answer, second, last]
    assert (last.name, last.role, last.content) == ("bot", "assistant", "You are Ada.")
    assert model.requests[1].messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "I am Ada.", "name": "Ada"},
        {"role": "assistant", "content": "Hello, Ada.", "name": "bot"},
        {"role": "user", "content": "Who am I?", "name": "Ada"},
    )


def test_an_agent_with_a_memory_of_a_key_goes_on_after_a_restart(tmp_path: Path):
    """With `memory=` an agent made anew is told what was said before."""
    for text, told in (("I am Ada.", 1), ("Who am I?", 3)):
        model = ScriptedChat(["Yes."])
        with Memory.open(tmp_path / "app.db", embedder="words") as memory:
            bot = DialogAgent("bot", model=model, memory=TemporaryMemory(memory=memory.key("ada")))
            bot.reply(Msg("Ada", text, role="user"))
        assert len(model.requests[0].messages) == told


def test_a_reply_that_fails_remembers_nothing_and_can_be_asked_again():
    """The two messages of a reply are there together, or not at all."""
    bot = DialogAgent("bot", model=ScriptedChat([ModelUnavailable("scripted", "is busy"), "Yes."]))
    message = Msg("Ada", "Hello?", role="user")
    with pytest.raises(ModelUnavailable):
        bot.reply(message)
    assert bot.memory.size() == 0
    assert bot.reply(message).content == "Yes."
    assert bot.memory.size() == 2


def test_a_message_that_was_observed_is_told_once():
    """By its id; one without an id, and nothing at all, are answered too."""
    model = ScriptedChat(["One.", "Two.", "Three."])
    bot = DialogAgent("bot", model=model)
    seen = Msg("Ada", "Hello?", role="user")
    bot.observe(seen)
    bot.reply(seen)
    bot.reply(Msg.from_items({"name": "Eve", "content": "And I?", "role": "user"}))
    bot.reply()
    assert [len(asked.messages) for asked in model.requests] == [1, 3, 4]
    assert bot.memory.size() == 5


def test_messages_without_an_id_are_each_told():
    """None of them is known by it to be there already."""
    model = ScriptedChat(["One.", "Two."])
    bot = DialogAgent("bot", model=model)
    for text in ("Hello?", "And I?"):
        bot.reply(Msg.from_items({"name": "Eve", "content": text, "role": "user"}))
    assert [one["content"] for one in model.requests[1].messages] == ["Hello?", "One.", "And I?"]


def test_both_messages_of_a_reply_are_one_commit():
    """A kill between them would leave a request that was answered, or an answer to nothing."""
    with Memory.open(embedder="words") as memory:
        talk = TemporaryMemory(memory=memory.key("ada"))
        bot = DialogAgent("bot", model=ScriptedChat(["One.", "Two."]), memory=talk)
        bot.reply(Msg("Ada", "Hello?", role="user"))
        before = memory.stats().store.commits
        bot.reply(Msg("Ada", "Again?", role="user"))
        assert memory.stats().store.commits == before + 1


def test_what_no_agent_can_be_made_of_or_reply_to_is_an_error():
    """Each is named; a base class does not reply."""
    model = ScriptedChat([])
    for make in (
        lambda: DialogAgent("", model=model),
        lambda: DialogAgent("bot", model="gpt"),  # pyright: ignore[reportArgumentType] - the wrong model
        lambda: DialogAgent("bot", None, model=model),  # pyright: ignore[reportArgumentType] - the wrong prompt
        lambda: DialogAgent("bot", model=model, memory=[]),  # pyright: ignore[reportArgumentType] - the wrong memory
        lambda: DialogAgent("bot", model=model).reply("hello"),  # pyright: ignore[reportArgumentType] - the wrong message
        lambda: DialogAgent("bot", model=model).reply(),
    ):
        with pytest.raises(InvalidInput):
            make()
    with pytest.raises(NotImplementedError):
        AgentBase("bot").reply()
