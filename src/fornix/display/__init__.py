"""How values show themselves in notebooks: HTML, and pictures that need no server."""
