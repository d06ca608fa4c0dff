"""The portal's side of logs: Redis stream -> archive files, and both -> browser. Offsets are bytes of the spool."""
