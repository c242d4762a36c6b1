"""A shopping assistant with four memories.

Ada comes to a shop for outdoor gear, and says that wool is scratchy. A week later the shop is
opened anew, and all that is left of the first week is a file. She asks for a warm pullover. The
assistant does not offer her the merino one. It does offer it to Bob, who never said anything of
the kind: what Ada said is hers, while the catalogue is everybody's.

Which memory for what:

| what | memory | why |
|---|---|---|
| the notes of one turn | sensory | the actions of the run share them; then they are gone |
| the cart | short-term | exact: two jackets are two jackets |
| what Ada said about herself | long-term | found by what it means, not by where it was put |
| the catalogue | knowledge | one for all customers |

Each turn is a run of three actions. Each action is one commit: the cart, what is remembered and
the answer change together or not at all. An input that comes twice with the same `event_id` (a
browser that was impatient) is one run, and gets the same answer; the model is not asked again.

    python main.py [shop.db]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from alveus import LocalRunner, Memory
from assistant import Assistant
from model import ScriptedModel

CATALOGUE = {
    "merino": "Merino pullover, the warmest wool there is.",
    "fleece": "Fleece pullover, warm, light, dries fast.",
    "rain": "Rain jacket, keeps off water and wind.",
    "stove": "Gas stove, boils a litre in three minutes.",
}

FIRST_WEEK = [("ada", "Hello! I walk in Norway in autumn, and wool is so scratchy.", "ada-1")]
SECOND_WEEK = [
    ("ada", "Which warm pullover do you have?", "ada-2"),
    ("bob", "Which warm pullover do you have?", "bob-1"),
    ("ada", "And something against rain, a jacket?", "ada-3"),
    ("ada", "And something against rain, a jacket?", "ada-3"),
]


def talk(url: str | Path, model: ScriptedModel, turns: list[tuple[str, str, str]]) -> list[str]:
    """Open the shop, serve customers, close it; return the answers."""
    answers: list[str] = []
    with Memory.open(url, space="shop") as memory:
        for name, text in CATALOGUE.items():
            memory.knowledge.set("catalogue").add(text, id=name, on_existing="keep")
        with LocalRunner(Assistant(model), memory) as runner:
            for customer, words, event_id in turns:
                (answer,) = runner.handle(customer, words, event_id=event_id)
                answers.append(answer)
    return answers


def main(url: str | Path) -> None:
    """Show two weeks of the shop."""
    model = ScriptedModel()
    for turns in (FIRST_WEEK, SECOND_WEEK):
        for (customer, words, _), answer in zip(turns, talk(url, model, turns), strict=True):
            print(f"{customer:>9}: {words}\nassistant: {answer}\n")
    with Memory.open(url, space="shop") as memory:
        for customer in ("ada", "bob"):
            key = memory.key(customer)
            print(f"{customer}'s cart: {', '.join(key.short_term.get('cart', []))}")
            print(f"{customer} said: {[item.text for item in key.set('remarks')]}")
    print(f"The model was asked {len(model.prompts)} times; the last prompt was:\n")
    print(model.prompts[-1])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder) / "shop.db")
