"""The weights of the embedder `multilingual` of alveus; see `alveus.embed`."""
