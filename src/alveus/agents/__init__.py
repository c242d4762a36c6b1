"""Windows, layers, messages, chat and automata, for users of other agent systems."""
