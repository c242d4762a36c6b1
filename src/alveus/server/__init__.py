"""The server: a memory over HTTP, for programs in any language.

Like the command line, it checks the caller, calls `Memory`, and returns the result. `app` creates
the app, so that importing the JSON forms does not load a web server.
"""
