"""Which jobs of a trace are of a kind of which the trace says nothing."""

from zlib import crc32

PARTS = 10_000


def among(job_id: str, share: float) -> bool:
    """Whether the job belongs to this share of all: by its id, so that a larger share holds all of a smaller one."""
    return crc32(job_id.encode()) % PARTS < share * PARTS
