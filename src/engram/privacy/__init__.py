"""Takes secrets and personal data out of text before anything else sees it."""

from engram.privacy.detectors import Detector, Finding
from engram.privacy.names import refuse_secret, shipped
from engram.privacy.policy import Policy, policy_of
from engram.privacy.redactor import SecretRedactor
from engram.privacy.structured import clean_json

__all__ = [
    "Detector",
    "Finding",
    "Policy",
    "SecretRedactor",
    "clean_json",
    "policy_of",
    "refuse_secret",
    "shipped",
]
