"""A model that answers from a script, so that the example needs no key and no network.

It sees nothing but the prompt. So where an answer mentions what was said the week before, memory
has put it there.
"""

from __future__ import annotations

from typing import Any

SCRIPT: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (
        ("Customer: Hello", "scratchy"),
        {
            "say": "Noted: no wool. What are you looking for?",
            "remember": ["Wool makes me itch, I cannot wear it.", "I walk in Norway in autumn."],
        },
    ),
    (
        ("Customer: Which warm pullover", "Wool makes me itch", "Fleece pullover"),
        {"say": "The fleece pullover: warm, and no wool in it.", "cart": ["fleece pullover"]},
    ),
    (
        ("Customer: Which warm pullover", "Merino pullover"),
        {"say": "The merino pullover is our warmest.", "cart": ["merino pullover"]},
    ),
    (
        ("Customer: And something against rain", "Rain jacket", "In the cart: fleece pullover"),
        {"say": "The rain jacket goes well over your fleece.", "cart": ["rain jacket"]},
    ),
]


class ScriptedModel:
    """Gives the first answer whose words are all in the prompt.

    Attributes:
        prompts: What it was asked.
    """

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def __call__(self, prompt: str) -> dict[str, Any]:
        """Return the answer to a prompt."""
        self.prompts.append(prompt)
        for words, answer in SCRIPT:
            if all(word in prompt for word in words):
                return answer
        return {"say": "I am sorry, I have nothing for that."}
