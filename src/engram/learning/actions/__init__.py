"""Actions: parse them, compare them, and look up how similar ones went.

An action is free text (a command line, a tool call or a phrase), taken in a context.

- `command_lines` brings a command line or phrase into a canonical form, so that two spellings compare as equal.
- `parsing` turns the texts of an action and its context into values, and measures how similar two of them are.
- `history` indexes every attempt of every action by context, and finds the attempts that matter for a new one.
"""
