"""Names that people give: they are kept as they are, so that one with a secret in it is refused, not changed."""

from __future__ import annotations

from functools import cache

from engram.errors import InvalidInput
from engram.ports import Redactor
from engram.privacy.redactor import SecretRedactor


def refuse_secret(redactor: Redactor | None, name: str, what: str) -> None:
    """Raise `InvalidInput` for a name that holds a secret; without a redactor, the rules that come with Engram count.

    `what` is the name in words, such as "the name of this group". Personal data may be a name.
    """
    if (redactor or shipped()).clean([name])[0].secrets:
        raise InvalidInput(f"{what} holds a secret; give another one")


@cache
def shipped() -> Redactor:
    """The rules that come with Engram, for whoever is given no redactor."""
    return SecretRedactor()
