"""Takes secrets out of text before anything else sees it."""

from engram.privacy.redactor import SecretRedactor
from engram.privacy.structured import clean_json

__all__ = ["SecretRedactor", "clean_json"]
