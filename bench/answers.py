"""Chats with long answers, made up: a user asks for advice, an assistant answers at length.

Each answer has 12 to 40 sentences about its topic, and two of them are what is asked for later; a
user's message has one thing about the user, which is asked for too. A question is answered if its
sentence is in the prompt, whatever else of the answer is. `chat(3)` is the same on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from alveus import Budget, Item, Memory
from alveus.text.messages import MESSAGES, Message

CHATS = 4
ROUNDS = 3
"""How often each topic comes up, with other details."""
SENTENCES = (12, 40)
SEARCHED = 60
"""Hits of a search whose lines are packed."""

TOPICS = {
    "sourdough bread": "dough,starter,oven,crust,flour,basket",
    "a vegetable garden": "soil,bed,compost,seedling,fence,mulch",
    "cycling across the Alps": "route,tyre,pass,pannier,brake,hostel",
    "learning the cello": "bow,string,scale,posture,teacher,rosin",
    "painting a wooden boat": "hull,primer,varnish,brush,keel,sandpaper",
    "keeping bees": "hive,queen,frame,smoker,honey,swarm",
    "moving to another city": "lease,van,deposit,boxes,landlord,address",
    "training for a marathon": "pace,long run,shoe,rest day,hill,plan",
    "repairing an old radio": "valve,capacitor,solder,dial,speaker,chassis",
    "a wedding in a barn": "guest list,band,tent,caterer,invitation,speech",
    "raising a puppy": "crate,leash,vet,treat,walk,vaccine",
    "building a bookcase": "board,shelf bracket,glue,clamp,stain,dowel",
    "photographing birds": "lens,tripod,hide,shutter,feeder,reserve",
    "writing a short story": "opening,narrator,dialogue,draft,ending,scene",
    "insulating the attic": "rafter,batt,vapour barrier,hatch,vent,joist",
    "brewing beer at home": "wort,yeast,hops,fermenter,bottle,mash",
    "an allotment pond": "liner,pump,lily,edge,newt,filter",
    "restoring a typewriter": "ribbon,carriage,key lever,platen,oil,spring",
}
FILLER = (
    "Before you begin, look at the {a} closely and note what has changed since the last time.",
    "Most people worry about the {a}, but the {b} matters at least as much.",
    "If the {a} gives you trouble, start again with the {b} and go slowly.",
    "A good {a} saves you time later, because the {b} depends on it.",
    "You do not need an expensive {a}; a plain one does the job well.",
    "Ask somebody with experience to look at the {a} once you are done with the {b}.",
    "It helps to write down what you did with the {a} each week.",
    "There are several opinions about the {a}, and none of them is entirely wrong.",
    "Keep the {b} away from the {a} until everything else is in order.",
    "When in doubt, leave the {a} alone for a day and come back to it.",
    "The {a} is where beginners lose patience, so plan a quiet afternoon for it.",
    "Once the {a} is settled, turn to the {b} and check it twice.",
)
DETAILS = (
    (
        "The {a} needs {n} minutes before you go on to anything else.",
        "How long did you say the {a} needs for {topic}?",
    ),
    (
        "For the {a}, the shop on {street} Street is the one that I recommend.",
        "Which shop did you recommend for the {a} when we talked about {topic}?",
    ),
    (
        "Set aside about {n} euros for the {a} and everything around it.",
        "What budget did you suggest for the {a} for {topic}?",
    ),
    (
        "Replace the {a} every {n} weeks, sooner in wet weather.",
        "How often should I replace the {a}, according to your advice about {topic}?",
    ),
)
ABOUT_USER = (
    (
        "My cousin {name} got me into {topic} last year.",
        "Which cousin of mine got me into {topic}?",
    ),
    ("I want to do {topic} together with my neighbour {name}.", "Who joins me for {topic}?"),
)
STREETS = [
    "Alder",
    "Birch",
    "Cedar",
    "Dover",
    "Elm",
    "Forge",
    "Garnet",
    "Harbour",
    "Ivory",
    "Juniper",
    "Kestrel",
    "Linden",
]
NAMES = [
    "Nadia",
    "Oskar",
    "Priya",
    "Quentin",
    "Rosa",
    "Stefan",
    "Tamar",
    "Ulrich",
    "Vera",
    "Wim",
    "Xenia",
    "Yusuf",
]
CLOSING = "Is there a part of this that you would like me to go through in more detail?"


@dataclass(frozen=True)
class AskedLater:
    """A question, and the sentence that answers it."""

    text: str
    answer: str


@dataclass(frozen=True)
class Chat:
    """Messages in order, a session for each topic, and what is asked about them."""

    id: str
    messages: tuple[tuple[str, Message], ...]
    questions: tuple[AskedLater, ...]


def chat(number: int) -> Chat:
    """Return chat *number*."""
    rng = random.Random(f"answers {number}")
    messages: list[tuple[str, Message]] = []
    questions: list[AskedLater] = []
    rounds = [rng.sample(sorted(TOPICS), len(TOPICS)) for _ in range(ROUNDS)]
    for topic in [topic for each in rounds for topic in each]:
        statement, question = rng.choice(ABOUT_USER)
        told = statement.format(topic=topic, name=rng.choice(NAMES))
        questions.append(AskedLater(question.format(topic=topic), told))
        asked = f"{told} Can you tell me how to get started, and what to look out for?"
        details = list(_details(rng, topic))
        questions += details
        answer = _answer(rng, topic, [one.answer for one in details])
        messages += [(topic, Message(asked)), (topic, Message(answer, "assistant"))]
        messages.append((topic, Message("Thanks, that is a lot to think about.")))
        messages.append((topic, Message("You are welcome!", "assistant")))
    messages += messages[-4:-2]  # the last answer is a long one
    return Chat(f"answers {number}", tuple(messages), tuple(questions))


def _details(rng: random.Random, topic: str) -> Iterator[AskedLater]:
    nouns = rng.sample(TOPICS[topic].split(","), 2)
    for noun, (sentence, question) in zip(nouns, rng.sample(DETAILS, 2), strict=True):
        said = sentence.format(a=noun, n=rng.randrange(3, 90), street=rng.choice(STREETS))
        yield AskedLater(question.format(a=noun, topic=topic), said)


def _answer(rng: random.Random, topic: str, details: list[str]) -> str:
    said = [f"Here is how I would go about {topic}."]
    for _ in range(rng.randint(*SENTENCES)):
        first, second = rng.sample(TOPICS[topic].split(","), 2)
        said.append(rng.choice(FILLER).format(a=first, b=second))
    for detail in details:
        said.insert(rng.randrange(1, len(said) + 1), detail)
    paragraphs = [" ".join(said[at : at + 5]) for at in range(0, len(said), 5)]
    return "\n\n".join([*paragraphs, CLOSING])


def fill(memory: Memory, made: Chat) -> None:
    """Put a chat into its key, unless it is there already."""
    kept = memory.key(made.id).set("chat", item_type=MESSAGES)
    began = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
    kept.add_many(
        [
            Item(
                message.to_dict(),
                id=f"m{place}",
                text=message.content,
                role=message.role,
                session=session,
                time=began + timedelta(days=place // 4, minutes=place % 4),
            )
            for place, (session, message) in enumerate(made.messages)
        ],
        on_existing="keep",
    )
    memory.settle()


def searched(memory: Memory, key: str, question: str, tokens: int) -> tuple[str, int]:
    """Return what a search finds as lines "role: text" within a budget, and its tokens."""
    budget = Budget()
    size, lines = budget.size([Message(question)]), list[str]()
    for hit in memory.key(key).search(question, limit=SEARCHED):
        line = f"{hit.item.speaker or hit.item.role}: {hit.item.text}\n"
        if size + budget.count(line) <= tokens:
            lines.append(line)
            size += budget.count(line)
    return "".join(lines), size
