"""Schema revisions, one file each, in order."""
