"""The systems whose users we serve: windows, layers, messages, chat, automata."""
