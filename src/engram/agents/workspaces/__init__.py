"""Take and restore snapshots of folders."""
