"""Export an agent's knowledge to files, import it from files or from other agents.

Imported knowledge is stored per source, apart from the agent's own: redacted like everything else, with low initial
trust, without pins or other privileges, counted once however often it arrives, and removable as a whole. `knowledge`
has the operations, `bundle` the file format, `importers` the formats of other programs, `signing` the keys.
"""

from engram.transfer.knowledge import Knowledge, Progress, installation

__all__ = ["Knowledge", "Progress", "installation"]
