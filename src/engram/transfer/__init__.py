"""Knowledge that travels: out of one memory, into a file or another agent's annex, and never into its own evidence.

What comes in is kept apart, by source: it is redacted like everything else, starts with low trust, has no rights that
it gave itself, counts once by whatever way it came, and can be taken back as a whole.
"""

from engram.transfer.export import Knowledge, Progress, installation

__all__ = ["Knowledge", "Progress", "installation"]
