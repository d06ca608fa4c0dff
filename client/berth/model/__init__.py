"""Types of the server's answers. States and reasons are plain strings, so that a newer server's are understood.

Times are aware datetimes; memory is in MB (2**20 bytes), CPU in thousandths of a core.
"""
