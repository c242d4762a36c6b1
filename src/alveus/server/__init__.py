"""The server: a memory over HTTP, for programs in any language.

It is a door like the command line: it checks who asks, hands on to `Memory`, and shows the answer.
What makes the app is in `app`, so that importing the forms of answers does not load a web server.
"""
