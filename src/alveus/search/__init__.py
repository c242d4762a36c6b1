"""From a question to hits: words, meaning and signals."""
