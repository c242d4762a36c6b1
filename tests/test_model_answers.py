"""What models and their servers wrap around an answer: one table, one reader for all who ask."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus import Memory, OpenAIChat, ScriptedChat
from alveus.agents.automata import Manifold
from alveus.agents.automata.tools import Tools
from alveus.agents.chat import DialogAgent
from alveus.agents.layers.scoring import ask_model
from alveus.agents.messages import Msg, TemporaryMemory
from alveus.agents.windows import ByModel, Observation, Reply
from alveus.errors import ModelAnswerInvalid, ModelRefused
from alveus.llm import (
    AnswerReader,
    Asking,
    ChatReranker,
    Unfit,
    answer_text,
    ask_json,
    ask_text,
    read_json,
    read_json_alone,
    stream_text,
)
from alveus.testing import ChatReply, ChatServer
from alveus.text import ModelSummariser
from alveus.text.messages import Message
from alveus.values.retries import Retry
from facts_script import answer as facts_answer
from waiting import LIMIT_S

SAID = [{"role": "user", "content": "Where does Ada live?"}]
THOUGHT = 'Ada lives in {"n": 9} Porto, I think.\nOr [1, 2]?'


Serve = Callable[[str | ChatReply], OpenAIChat]


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    """Return a function that has one server give a reply, and returns a client of it."""
    replies: list[str | ChatReply] = [""]

    def give(reply: str | ChatReply) -> OpenAIChat:
        replies[0] = reply
        return chat

    with ChatServer(lambda _: replies[0]) as server:
        once = Retry(attempts=1)
        chat = OpenAIChat(
            "small", base_url=server.url, api_key="any", timeout_s=LIMIT_S, retry=once
        )
        with chat:
            yield give


class Form(NamedTuple):
    """A form in which an answer comes; `A` stands for the answer, and `T` for thoughts."""

    family: str
    source: str
    text: str


WRAPPED = [
    # whole: the opening and the closing mark
    Form("DeepSeek R1-0528", "vLLM without a reasoning parser", "<think>\n%T\n</think>\n\n%A"),
    Form("DeepSeek V3.1", "its template without thinking: an empty end", "</think>%A"),
    Form("Qwen 3", "Ollama before 0.9", "<think>\n%T\n</think>\n\n%A"),
    Form("Qwen 3", "enable_thinking=false", "<think>\n\n</think>\n\n%A"),
    Form("GLM 4.5", "SGLang without a parser", "\n<think>%T</think>\n%A"),
    Form("GLM 4.5", "/nothink", "<think></think>\n%A"),
    Form("GLM 4.5V", "its template", "<think>%T</think><|begin_of_box|>%A<|end_of_box|>"),
    Form("MiniMax M2", "vLLM minimax_m2", "<think>\n%T\n</think>\n\n%A"),
    Form("MiniMax M3", "vLLM minimax_m3", "<mm:think>%T</mm:think>%A"),
    Form("Phi-4-reasoning", "llama.cpp", "<think>%T</think>\n\n %A"),
    Form("SmolLM 3", "transformers", "<think>\n%T\n</think>\n%A<|im_end|>"),
    Form("Nemotron Nano", "NIM", "<think>\n%T\n</think>\n\n%A"),
    Form("Perplexity sonar-reasoning", "its API", "<think>\n%T</think>\n\n%A"),
    Form("EXAONE Deep", "its template", "<thought>\n%T\n</thought>\n\n%A"),
    Form("Marco-o1", "its card", "<Thought>\n%T\n</Thought>\n<Output>\n%A\n</Output>"),
    Form("Gemini", "Google's OpenAI endpoint, include_thoughts", "<thought>%T</thought>%A"),
    Form("Amazon Nova", "Bedrock's gateway", "<thinking> %T </thinking>\n\n%A"),
    Form("Reflection 70B", "its prompt", "<thinking>\n%T\n</thinking>\n\n<output>\n%A\n</output>"),
    Form("Reka Flash 3", "its template", " <reasoning> %T </reasoning> %A"),
    Form("Hunyuan A13B", "vLLM hunyuan_a13b", "<think>\n%T\n</think>\n<answer>\n%A\n</answer>"),
    Form("Granite 3.3", "its template", "<think>%T</think><response>%A</response>"),
    Form("ERNIE 4.5", "vLLM ernie45", "<think>\n%T\n</think>\n\n<response>\n%A\n</response>\n"),
    Form("Seed-OSS", "vLLM seed_oss", "<seed:think>%T</seed:think>%A<seed:eos>"),
    Form("LongCat", "vLLM longcat", "<longcat_think>%T</longcat_think>%A"),
    Form("K2 Horizon", "vLLM k2_horizon", "<ifm|think>%T</ifm|think>%A"),
    Form("Kimi-VL-Thinking", "its card", "◁think▷%T◁/think▷%A"),
    Form("Magistral", "vLLM mistral", "[THINK]%T[/THINK]%A"),
    Form("Command A Reasoning", "its template",
         "<|START_THINKING|>%T<|END_THINKING|><|START_RESPONSE|>%A<|END_RESPONSE|>"),
    Form("Vikhr", "a fine-tune of Command's form", "<|start_thinking|>%T<|end_thinking|>%A"),
    Form("Gemma 4", "vLLM gemma4", "<|channel>thought\n%T<channel|>%A"),
    Form("Gemma 4", "no thinking", "<|channel>thought\n<channel|>%A<turn|>"),
    Form("Apertus", "vLLM apertus", "<|inner_prefix|>%T<|inner_suffix|>%A"),
    Form("OpenThinker", "its card", "<|begin_of_thought|>\n\n%T\n\n<|end_of_thought|>\n\n"
         "<|begin_of_solution|>\n\n%A\n\n<|end_of_solution|>"),
    Form("Pangu", "vLLM pangu", "[unused16]%T[unused17]%A"),
    Form("Solar Open", "vLLM solar_open",
         "<|think|>%T<|end|><|begin|>assistant<|content|>%A"),
    Form("Granite 3.2", "vLLM granite",
         "Here is my thought process: %T\n\nHere is my response: %A"),
    Form("Granite 3.2 quantized", "vLLM granite",
         "Here's my thought process:\n%T\nHere's my response:\n%A"),
    Form("gpt-oss", "a server that does not read harmony",
         "<|channel|>analysis<|message|>%T<|end|><|start|>assistant<|channel|>final<|message|>%A"
         "<|return|>"),
    Form("gpt-oss", "asked for JSON",
         "<|channel|>analysis<|message|>%T<|end|><|start|>assistant<|channel|>final "
         "<|constrain|>json<|message|>%A<|return|>"),
    Form("gpt-oss", "with a preamble of a tool",
         "<|channel|>analysis<|message|>%T<|end|><|start|>assistant<|channel|>commentary to=f "
         "<|constrain|>json<|message|>%T<|call|><|start|>assistant<|channel|>final<|message|>%A"),
    Form("gpt-oss", "no thoughts", "<|channel|>final<|message|>%A<|end|>"),
    Form("gpt-oss", "a server that drops special tokens", "analysis%T.assistantfinal%A"),
    # only closed: the template of the prompt ends with the opening mark
    Form("DeepSeek R1", "its template", "%T\n</think>\n\n%A"),
    Form("QwQ", "its template", "Okay. %T\n</think>\n\n%A<|im_end|>"),
    Form("EXAONE 4", "its template", "\n%T\n</think>\n\n%A"),
    Form("HyperCLOVA X SEED", "its template", "%T</think>\n\n%A"),
    Form("Kimi-VL-Thinking", "its template", "%T◁/think▷%A"),
    Form("gpt-oss", "its template with a channel",
         "%T<|end|><|start|>assistant<|channel|>final<|message|>%A"),
    # between, nested, in other letters
    Form("Qwen 3", "thoughts twice", "<think>%T</think>\n\n<think>\n%T\n</think>\n\n%A"),
    Form("GLM 4.5", "interleaved thinking", "<think>%T</think>%A<think>%T</think>"),
    Form("Qwen 3", "cut off behind the answer", "<think>%T</think>%A\n<think>\n%T"),
    Form("DeepSeek R1", "nested", "<think>%T <think>%T</think> %T</think>%A"),
    Form("DeepSeek R1", "a mark that is mentioned in thoughts",
         '<think>The mark "</think>" or `</think>` ends it. %T</think>%A'),
    Form("Llama 3.1 fine-tunes", "in capitals", "<THINK>%T</Think>\n%A<|eot_id|>"),
    # tags of another spelling
    Form("Qwen 3 fine-tunes", "a line break in the tag", "<think\n>%T</think\n>\n%A"),
    Form("Llama 3.1 fine-tunes", "spaces in the tag", "<thinking  >\n%T\n</thinking >%A"),
    Form("Hunyuan A13B", "spaces in all tags", "<think >%T</think ><answer >%A</answer >"),
    Form("DeepSeek R1 distills", "closed by a relative", "<think>%T</thinking>%A"),
    Form("Claude", "closed by a relative", "<reasoning>%T</thoughts>\n%A"),
    Form("DeepSeek R1", "thoughts that end with a quote", '<think>%T "five"</think>%A'),
    # notes that prompts ask for
    Form("Reflection 70B", "only a reflection", "<reflection>%T</reflection>%A"),
    Form("Reflection 70B", "a reflection behind its thoughts",
         "<thinking>%T</thinking>\n<reflection>\n%T\n</reflection>\n<output>\n%A\n</output>"),
    Form("Claude", "a scratchpad", "<scratchpad>\n%T\n</scratchpad>\n\n%A"),
    Form("Claude", "an analysis, and an answer on its line", "<Analysis>%T</Analysis> %A"),
    Form("Open WebUI", "what it keeps of a chat",
         '<details type="reasoning" done="true" duration="3">\n<summary>Thought for 3 seconds'
         "</summary>\n> %T\n</details>\n%A"),
    # what else a template leaves
    Form("Llama 3", "a server without stops",
         "<|start_header_id|>assistant<|end_header_id|>\n\n%A<|eot_id|>"),
    Form("Qwen 2.5", "a server without stops", "<|im_start|>assistant\n%A<|im_end|>\n"),
    Form("Phi 3", "a server without stops", "<|assistant|>\n%A<|end|>"),
    Form("Mistral 7B", "a server without stops", "%A</s>"),
    Form("DeepSeek V3", "a server without stops", "%A<\uff5cend\u2581of\u2581sentence\uff5c>"),
    Form("Gemma 2", "a server without stops", "%A<end_of_turn>\n"),
    Form("DeepSeek Coder", "a server without stops", "%A\n<|EOT|>"),
    Form("Hunyuan", "a server without stops", "<|startoftext|>%A<|eos|>"),
    Form("Yi", "another text begins", "%A<|endoftext|><|startoftext|>"),
    Form("Llama 4", "a server without stops",
         "<|begin_of_text|><|header_start|>assistant<|header_end|>\n\n%A<|eot|>"),
    Form("Granite 3", "a server without stops",
         "<|start_of_role|>assistant<|end_of_role|>%A<|end_of_text|>"),
    Form("Gemma 3", "a server without stops", "<bos><start_of_turn>model\n%A<end_of_turn>"),
    Form("Command R", "a server without stops",
         "<BOS_TOKEN><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>%A<|END_OF_TURN_TOKEN|>"),
    Form("DeepSeek V3", "all marks of its template",
         "<\uff5cbegin\u2581of\u2581sentence\uff5c><\uff5cAssistant\uff5c></think>%A"),
    Form("GLM 4", "a server without stops", "%A<|user|>"),
    Form("small base models", "a transcript goes on", "Assistant: %A"),
    Form("a proxy on Windows", "a byte order mark", "\ufeff%A"),
]  # fmt: skip
"""Forms of which everything but the answer is cut off."""

FENCED = [
    Form("Claude", "JSON asked by words", "```json\n%A\n```"),
    Form("Qwen 3", "thoughts and a fence", "<think>\n%T\n</think>\n\n```json\n%A\n```"),
    Form("Llama 3.2", "stopped at the end of the fence", "```json\n%A"),
    Form("Gemma 2", "a fence on one line", "```json %A```"),
]
"""Forms of JSON that a fence alone is around."""

AMONG_SENTENCES = [
    Form("GPT-4o", "JSON asked by words", "Here is the JSON:\n\n```json\n%A\n```"),
    Form("Gemini", "JSON asked by words", "```json\n%A\n```\n\nLet me know if I missed anything!"),
    Form("Llama 3.1", "JSON asked by words", "Sure!\n```\n%A\n```\nI hope this helps."),
    Form("Mixtral", "JSON asked by words", "Here it is: \n\n%A\n\nNote: nothing else was said."),
    Form("Mistral 7B", "JSON asked by words", " %A\n\nExplanation: it is what was asked for."),
    Form("DeepSeek R1", "only closed, a fence", "%T\n</think>\n\nHere:\n~~~json\n%A\n~~~\n"),
    Form(
        "Phi 4", "another fence", "Run `x`:\n```python\nprint({1: 2})\n```\nand:\n```json\n%A\n```"
    ),
    Form("Command R", "twice the same", "```json\n%A\n```\n%As a whole:\n```json\n%A\n```"),
    Form("CodeLlama", "a language alone", "json\n%A"),
]
"""Forms of JSON among sentences: whoever asked for JSON reads it, and it is a call of no tool."""


def ids(forms: list[Form]) -> list[str]:
    return [f"{form.family}, {form.source}" for form in forms]


def written(form: Form, answer: str) -> str:
    """Return an answer in a form."""
    return form.text.replace("%T", THOUGHT).replace("%A", answer)


ALL = [*WRAPPED, *FENCED, *AMONG_SENTENCES]

FACTS = json.loads(
    facts_answer([{"role": "user", "content": json.dumps({"messages": [
        {"id": 1, "time": "", "speaker": "Ada", "text": "Ada lives in Lisbon."}
    ]})}])
)  # fmt: skip


def test_the_table_is_as_wide_as_it_says():
    """Sixty answers and more, of more than twelve families."""
    assert len(ALL) >= 60
    assert len({form.family.split()[0] for form in ALL}) >= 12


@pytest.mark.parametrize("form", WRAPPED, ids=ids(WRAPPED))
def test_an_answer_is_what_is_left_without_its_wrapping(form: Form):
    """Text, JSON, a stream, and a call of a tool: the same answer, and no thoughts."""
    assert answer_text(written(form, "Lisbon it is.")).strip() == "Lisbon it is."
    value = {"fact": "Ada wrote <think>x</think> and </think>", "n": [1, "[/THINK]"]}
    assert read_json(written(form, json.dumps(value, ensure_ascii=False))) == value
    assert read_json_alone(written(form, json.dumps(value, indent=1))) == value
    pieces = streamed(written(form, "Lisbon it is."))
    assert answer_text("".join(pieces)).strip() == "Lisbon it is."
    call = '{"tool": "look", "arguments": {"at": "the <think> tag"}}'
    (found,) = Tools([look]).calls(answer_text(written(form, call)))
    assert found.arguments == {"at": "the <think> tag"}


@pytest.mark.parametrize("form", [*FENCED, *AMONG_SENTENCES], ids=ids([*FENCED, *AMONG_SENTENCES]))
def test_json_is_found_among_sentences(form: Form):
    """Who asked for JSON reads it; a tool is called only by an answer that is nothing else."""
    value = {"fact": "Ada wrote ```x``` and <think>x</think>", "n": [1, {"m": None}]}
    assert read_json(written(form, json.dumps(value))) == value
    call = '{"tool": "look", "arguments": {"at": "x"}}'
    assert len(Tools([look]).calls(written(form, call))) == (form in FENCED)


@pytest.mark.parametrize("form", ALL, ids=ids(ALL))
def test_all_who_ask_for_json_read_it_alike(form: Form):
    """Learning, summaries, re-rankers and scorers have one reader."""

    def model(answer: object) -> ScriptedChat:
        return ScriptedChat([written(form, json.dumps(answer))])

    with Memory.open(embedder="words") as memory:
        report = memory.key("ada").learn("Ada lives in Lisbon.", model=model(FACTS))
        assert [one.text for one in report.added] == ["Ada lives in Lisbon."]
    summariser = ModelSummariser(model({"summary": "Ada lives there."}))
    summary = summariser.summarise(["Ada lives in Lisbon."])
    assert (summary.text, summary.because) == ("Ada lives there.", "")
    assert ChatReranker(model({"marks": [7]})).rerank("where?", ["Lisbon"]) == [7]
    exchange = Observation("Where?", Reply(Message("Lisbon.", "assistant")))
    score = ByModel(model({"importance": 10})).score(exchange, now=datetime.now(UTC), newest=[])
    assert (score.value, score.by) == (1.0, "model:scripted")


@pytest.mark.parametrize("form", WRAPPED, ids=ids(WRAPPED))
def test_no_agent_remembers_a_thought(form: Form):
    """What agents say, remember and tell the model again is the answer."""
    answer = written(form, "Lisbon it is.")
    model = ScriptedChat([answer] * 3)
    with Memory.open(embedder="words") as memory:
        key = memory.key("ada")
        talk = TemporaryMemory(memory=key)
        agent = DialogAgent("Bot", model=model, memory=talk)
        assert agent(Msg("Ada", "Where?", role="user")).content == "Lisbon it is."
        agent(Msg("Ada", "Sure?", role="user"))
        told = json.dumps([model.requests[-1].messages, key.set("messages").list()], default=str)
        assert "Porto" not in told
        assert told.count("Lisbon it is.") >= 2
    automaton = Manifold(ScriptedChat(lambda _: answer), [look])
    assert automaton.prompt("Where?") == "Lisbon it is."
    assert automaton.prompt("Sure?") == "Lisbon it is."
    assert "Porto" not in repr(automaton.memory.context("And?"))  # pyright: ignore[reportArgumentType] - the test fails where it is another type
    assert asyncio.run(ask_model(ScriptedChat([answer]), "{text}", "x")) == "Lisbon it is."


NOTHING_SAID = [
    Form("Qwen 3", "cut at max_tokens", "<think>\n%T"),
    Form("Magistral", "cut at max_tokens", "[THINK]%T"),
    Form("gpt-oss", "cut in the analysis", "<|channel|>analysis<|message|>%T"),
    Form("gpt-oss", "cut in a header", "<|channel|>analysis<|message|>%T<|end|><|start|>assis"),
    Form("Command A Reasoning", "cut at max_tokens", "<|START_THINKING|>%T"),
    Form("Gemma 4", "cut at max_tokens", "<|channel>thought\n%T"),
    Form("DeepSeek R1", "nothing behind its thoughts", "%T</think>\n\n"),
    Form("Seed-OSS", "cut at max_tokens", "<seed:think>%T"),
    Form("Qwen 3 fine-tunes", "cut, a line break in the tag", "<think\n>%T"),
    Form("Open WebUI", "cut off", '<details type="reasoning" done="false">\n> %T'),
]


@pytest.mark.parametrize("form", NOTHING_SAID, ids=ids(NOTHING_SAID))
def test_thoughts_alone_are_no_answer(form: Form, serve: Serve):
    """Thoughts that were cut off are nothing that anybody said: the answer cannot be used."""
    answer = written(form, "")
    assert answer_text(answer) == ""
    with pytest.raises(ModelAnswerInvalid, match="only thoughts"):
        ask_text(ScriptedChat([answer]), SAID)
    chat = serve(answer)
    for ask in (chat.complete, whole_stream(chat)):
        with pytest.raises(ModelAnswerInvalid, match="only thoughts"):
            ask(SAID)


MENTIONED = [
    "The `<think>` tag opens thoughts, `</think>` closes them.",
    'Write "<think>" and "</think>" around it.',
    "In the template <think> opens the thoughts.",
    "```\n<think>\nplan\n</think>\nanswer\n```\nis what R1 writes.",
    '{"fact": "Ada types <think>x</think>", "list": ["</think>", "[THINK]"]}',
    'The result: {"a": "</think> is text"} and no more.',
    "[think] he hums, and <thinker> is no tag; <s>nor</s> this",
    "analysis of what was said",
    "Here is my thought process: first, I look.",
    "Assistant:none",
    "  two  spaces stay, \n\n as they are ",
    "\\<think> with a backslash",
    "a \\<|channel|>final too",
    "if a<b and c>d, then [0]",
    "a <think     > with many spaces",
    "<analysis> and </analysis> are tags of prompts.",
    "<scratchpad>…</scratchpad>, and <reflection>…</reflection>: tags",
    "<scratchpad>\nonly this",
    "<analysis>\n<point>an answer in XML</point>\n</analysis>\n",
    "Write <analysis>x</analysis>Then go on.",
    "<details>\n<summary>More</summary>\nfolded\n</details>\nand more",
    '写"</think>"标签。',
    "It's '</think>'.",
    '("</think>")',
]


def test_an_answer_that_consists_of_notes_is_kept():
    """Nothing but the end of the turn follows them."""
    for answer in ("<analysis>\n<point>1</point>\n</analysis>", "<scratchpad>never closed"):
        for ends in ("", "\n", "<|im_end|>", "\n<end_of_turn>\n", "</s>"):
            assert answer_text(f"{answer}{ends}").strip() == answer
            assert "".join(streamed(f"{answer}{ends}")).strip() == answer


def test_several_marks_at_the_end_are_no_part_of_a_stream():
    """None is told before it is known that the answer goes on behind it."""
    for ends in ("<|EOT|><|EOT|>", "<|im_end|>\n<|endoftext|>", "</s> <|endoftext|><|user|>\n"):
        assert "".join(streamed(f"Lisbon.{ends}")) == "Lisbon."
        assert "".join(streamed(f"Lisbon.{ends} is")) == f"Lisbon.{ends} is"


@pytest.mark.parametrize("quote", ['""', "''", "``", "“”"])
@pytest.mark.parametrize("opening", ["<think>", ""])
def test_a_mark_between_two_quotations_is_a_mark(quote: str, opening: str):
    """One of them ends before it and one begins behind it: it is in neither."""
    first, last = quote
    for thought in ("secret", "It is a secret."):
        for answer in (f"{first}Paris{last}", f"{first}7{last} it is"):
            given = f"{opening}{first}{thought}{last}</think>{answer}"
            assert answer_text(given) == answer
            assert answer_text("".join(streamed(given))) == answer


@pytest.mark.parametrize("answer", MENTIONED)
def test_what_an_answer_mentions_stays(answer: str):
    """A mark in code, in quotes or in a string of JSON is the model's word about it."""
    assert answer_text(answer) == answer
    assert "".join(streamed(answer)) == answer


@given(st.text('<>/think |[]`"{}\\\n', max_size=60))
def test_a_stream_says_what_the_whole_says(answer: str):
    """However an answer arrives, what is told of it leads to the same answer."""
    at_once = answer_text(answer)
    pieces = "".join(streamed(answer))
    if "</think>" not in pieces and "`" not in answer and "\\" not in answer:
        assert pieces.strip() == at_once.strip()


# --- what servers make of it --------------------------------------------------------------------


class Answered(NamedTuple):
    """A message of a server, and what of it is the answer to a request for JSON."""

    server: str
    message: Mapping[str, Any]
    finish: str = "stop"


JSON = '{"n": 3}'
THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}
CALL = {"id": "c1", "type": "function", "function": {"name": "answer", "arguments": JSON}}

ANSWERED = [
    Answered("OpenAI", {"content": JSON, "refusal": None, "annotations": []}),
    Answered("vLLM, reasoning parser", {"content": JSON, "reasoning_content": THOUGHT}),
    Answered("Ollama, OpenRouter", {"content": JSON, "reasoning": THOUGHT}),
    Answered("OpenRouter, details", {"content": JSON, "reasoning_details": [{"text": THOUGHT}]}),
    Answered("Mistral, Magistral", {"content": [THINKING, {"type": "text", "text": JSON}]}),
    Answered("Anthropic's parts", {"content": [
        {"type": "thinking", "thinking": THOUGHT, "signature": "x"}, {"type": "text", "text": JSON}
    ]}),
    Answered("Google's parts", {"content": [{"text": THOUGHT, "thought": True}, {"text": JSON}]}),
    Answered("parts of text", {"content": [{"type": "output_text", "text": '{"n":'}, " 3}"]}),
    Answered("assistants' parts", {"content": [{"type": "text", "text": {"value": JSON}}]}),
    Answered("JSON that was read already", {"content": {"n": 3}}),
    Answered("JSON by a tool", {"content": None, "tool_calls": [CALL]}, "tool_calls"),
    Answered("JSON by a function", {"content": None, "function_call": CALL["function"]}),
    Answered("Ollama's arguments", {"content": "", "tool_calls": [
        {"function": {"name": "answer", "arguments": {"n": 3}}}
    ]}),
    Answered("vLLM, deepseek_r1 with JSON", {"content": None, "reasoning_content": JSON}),
    Answered("OpenRouter, Laguna", {"content": None, "reasoning": JSON}),
]  # fmt: skip


@pytest.mark.parametrize("answered", ANSWERED, ids=[one.server for one in ANSWERED])
def test_a_message_is_read_as_its_server_writes_it(answered: Answered, serve: Serve):
    """Parts, thoughts beside the answer, JSON that arrives by a tool or among the thoughts."""
    reply = ChatReply(None, message=answered.message, finish=answered.finish)
    chat = serve(reply)
    asking = Asking(attempts=1)
    found = ask_json(chat, SAID, json_schema={"type": "object"}, check=dict, asking=asking)  # pyright: ignore[reportArgumentType] - the test fails where it is another type
    assert found == {"n": 3}


def test_thoughts_beside_an_empty_content_are_no_answer(serve: Serve):
    """A field of thoughts is read only by who asked for JSON, and only if it is JSON."""
    for name in ("reasoning_content", "reasoning", "thinking"):
        for thought, finish in ((THOUGHT, "stop"), (JSON, "stop"), (THOUGHT, "length")):
            reply = ChatReply("", message={name: thought}, finish=finish)
            chat = serve(reply)
            for ask in (chat.complete, whole_stream(chat)):
                with pytest.raises(ModelAnswerInvalid, match=r"no text|without a text"):
                    ask(SAID)
            if thought != JSON:
                with pytest.raises(ModelAnswerInvalid):
                    chat.complete(SAID, json_schema={"type": "object"})


@pytest.mark.parametrize("form", WRAPPED, ids=ids(WRAPPED))
def test_a_server_that_knows_no_marks_gives_the_answer(form: Form, serve: Serve):
    """Whole and streamed, over a socket."""
    answer = written(form, "Lisbon it is.")
    chat = serve(answer)
    assert chat.complete(SAID).strip() == "Lisbon it is."
    assert answer_text("".join(chat.stream(SAID))).strip() == "Lisbon it is."
    assert answer_text("".join(stream_text(chat, SAID))).strip() == "Lisbon it is."


def test_a_stream_of_parts_has_no_thoughts(serve: Serve):
    """Magistral streams its thoughts as parts, vLLM and Ollama as fields."""
    events = [
        {"delta": {"content": [THINKING]}},
        {"delta": {"reasoning_content": THOUGHT, "content": None}},
        {"delta": {"reasoning": THOUGHT}},
        {"delta": {"content": [{"type": "text", "text": "Lis"}]}},
        {"delta": {"content": "bon."}, "logprobs": {"content": []}},
        {"delta": {}, "finish_reason": "stop"},
    ]
    body = "".join(f"data: {json.dumps({'choices': [one]})}\n\n" for one in events).encode()
    reply = ChatReply(body=body, kind="text/event-stream")
    chat = serve(reply)
    assert "".join(chat.stream(SAID)) == "Lisbon."


def test_a_server_that_streams_nothing_is_read_whole(serve: Serve):
    """Some servers ignore that a stream was asked for."""
    body = json.dumps({"choices": [{"message": {"content": "Fine."}, "finish_reason": "stop"}]})
    chat = serve(ChatReply(body=body.encode()))
    assert list(chat.stream(SAID)) == ["Fine."]


@pytest.mark.parametrize("finish", ["content_filter", "SAFETY", "sensitive", "refusal"])
def test_a_filter_is_a_refusal_under_every_name(finish: str, serve: Serve):
    """OpenAI's, Google's, Zhipu's and Anthropic's name for the same."""
    parts = [{"type": "refusal", "refusal": "I will not."}]
    replies = [ChatReply("x", finish=finish), ChatReply(None, message={"content": parts})]
    for reply in replies:
        chat = serve(reply)
        for ask in (chat.complete, whole_stream(chat)):
            with pytest.raises(ModelRefused):
                ask(SAID)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ('```json\n{"n": 1,}\n```', "not JSON"),
        ('Here:\n```json\n{"n": 1}\n```\nor\n```json\n{"n": 2}\n```', "2 different JSON values"),
        ('```json\n{"n": 1, "n": 2}\n```\nDone.', "twice"),
        ('Sure! {"n": 1}', "not JSON"),
        ("<think>", "not JSON"),
        ("```python\nprint(1)\n```", "not JSON"),
    ],
)
def test_json_is_read_strictly_wherever_it_stands(answer: str, says: str):
    """Trailing commas, doubles and several pieces that differ are told to the model."""
    with pytest.raises(Unfit, match=says):
        read_json(answer)


def whole_stream(chat: OpenAIChat) -> Callable[[list[dict[str, str]]], list[str]]:
    """Return a function that asks for a stream and reads it to its end."""
    return lambda said: list(chat.stream(said))


def look(at: str) -> str:
    """Look at something."""
    return at


def streamed(answer: str) -> list[str]:
    """Return the pieces of an answer that comes letter by letter."""
    reader = AnswerReader()
    return [*map(reader.feed, answer), reader.end()]
