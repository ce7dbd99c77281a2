"""Redaction: take secrets and personal data out of text before anything else sees it, and encrypt what is stored.

- `redactor` replaces secrets and personal data in text by placeholders; `structured` does so in JSON values.
- `rules` reads and runs the patterns (rules.toml, personal.toml); `checks` verify checksums and ranges.
- `policy` decides per kind of data: mask it, drop it, reject the text, or keep it.
- `detectors` is the interface for other detectors, such as `presidio`.
- `instructions` finds instructions aimed at an agent in text that others wrote.
- `cipher` encrypts values; `keys` stores the master key in a file or keyring.
"""

from engram.privacy.detectors import Detector, Finding
from engram.privacy.policy import RedactionPolicy, policy_of
from engram.privacy.redactor import SecretRedactor, default_redactor, refuse_secret
from engram.privacy.structured import clean_json

__all__ = [
    "Detector",
    "Finding",
    "RedactionPolicy",
    "SecretRedactor",
    "clean_json",
    "default_redactor",
    "policy_of",
    "refuse_secret",
]
