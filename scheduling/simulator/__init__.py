"""A trace of jobs through the engine, event by event: the same jobs under several ways of sharing a cluster.

Pure, as the engine: rows go in, what became of the jobs comes out; files, clocks and charts are the caller's.
"""
