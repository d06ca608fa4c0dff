"""How a task's script is run: see ``docs/decisions/container-script.md``."""

from __future__ import annotations

SCRIPT_VARIABLE = "BERTH_SCRIPT"
LEASE_VARIABLE = "BERTH_LEASE"
LEASE_EVERY_S = 10
_PIECE = 96 * 1024
"""Linux takes at most 128 kB in one variable; longer scripts travel in numbered pieces."""

_MAIN = """\
trap 'exit 143' TERM
berth_script=$BERTH_SCRIPT berth_piece=1
unset BERTH_SCRIPT
while eval "[ -n \\"\\${BERTH_SCRIPT_$berth_piece+x}\\" ]"; do
  eval "berth_script=\\$berth_script\\$BERTH_SCRIPT_$berth_piece; unset BERTH_SCRIPT_$berth_piece"
  berth_piece=$((berth_piece + 1))
done
unset berth_piece
if [ -n "${BERTH_LEASE-}" ]; then
  (trap '' TERM HUP INT
   (n=0; while :; do n=$((n + 1)); echo "${BERTH_ATTEMPT_ID-} $n" >|"$BERTH_LEASE" || :; sleep @every@; done) \\
     </dev/null >/dev/null 2>&1 &)
fi
eval "$berth_script"
""".replace("@every@", str(LEASE_EVERY_S))


def script_environment(script: str) -> dict[str, str]:
    """The variables that carry the script: ``BERTH_SCRIPT``, and ``BERTH_SCRIPT_1`` ... for what does not fit."""
    pieces = _pieces(script)
    rest = {f"{SCRIPT_VARIABLE}_{number}": piece for number, piece in enumerate(pieces[1:], 1)}
    return {SCRIPT_VARIABLE: pieces[0], **rest}


def script_command() -> list[str]:
    """The fixed command of every container: no word of the job's stands in it, for ``ps`` shows it to everybody."""
    choose = 'if command -v bash >/dev/null 2>&1; then exec bash -e -c "$0"; fi; exec sh -e -c "$0"'
    return ["/bin/sh", "-c", choose, _MAIN]


def _pieces(script: str) -> list[str]:
    """``script`` cut so that no piece is longer than a variable may be, whatever its characters."""
    data, pieces, start = script.encode(), [], 0
    while len(data) - start > _PIECE:
        end = start + _PIECE
        while data[end] & 0xC0 == 0x80:
            end -= 1
        pieces.append(data[start:end].decode())
        start = end
    return [*pieces, data[start:].decode()]
