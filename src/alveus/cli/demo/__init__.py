"""The parts of the demo: a conversation (`conversation.jsonl`, original text), recall, a kill."""
