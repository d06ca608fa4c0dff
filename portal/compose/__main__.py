"""``python -m portal.compose [FOLDER]``: makes in the folder (``/run/berth``) what is not there yet.

Exit status: 2 and one sentence for what cannot be used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from portal.compose.address import address_read
from portal.compose.certificates import own_certificate_check
from portal.compose.files import data_prepare, files_make
from portal.compose.refusal import CannotStart

FOLDER = Path("/run/berth")
CERTIFICATE = Path("/run/berth-certificate")
DATA = Path("/var/lib/berth")


def main(argv: Sequence[str]) -> int:
    """The whole step, in order."""
    folder = Path(argv[0]) if argv else FOLDER
    now = datetime.now(UTC)
    try:
        address = address_read(os.environ)
        if address.certificate == "files":
            own_certificate_check(CERTIFICATE, host=address.host, now=now)
        files_make(folder, address=address, certificate=CERTIFICATE, now=now)
        data_prepare(DATA)
    except CannotStart as error:
        print(f"berth: {error}", file=sys.stderr)
        return 2
    print(f"berth: the portal's address is {address.url}, its certificate: {address.certificate}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
