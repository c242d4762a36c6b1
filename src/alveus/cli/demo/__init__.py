"""What the demo shows: a conversation (`conversation.jsonl`, original text), recall, a kill."""
