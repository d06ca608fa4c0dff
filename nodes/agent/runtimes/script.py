"""The shell around a task's script: see ``docs/decisions/container-script.md``."""

from __future__ import annotations

from nodes.protocol.names import OWN_COMMANDS

SCRIPT_VARIABLE = "BERTH_SCRIPT"
_OWN_VARIABLE = "BERTH_SCRIPT_OWN"
"""Names the piece of the script that begins the job's own commands, where others come before them."""
LEASE_VARIABLE = "BERTH_LEASE"
LEASE_EVERY_S = 10
_PIECE = 96 * 1024
"""Linux takes at most 128 kB in one variable; longer scripts travel in numbered pieces."""

_MAIN = """\
trap 'exit 143' TERM
berth_before= berth_script=$BERTH_SCRIPT berth_piece=1
unset BERTH_SCRIPT
while eval "[ -n \\"\\${BERTH_SCRIPT_$berth_piece+x}\\" ]"; do
  if [ "$berth_piece" = "${BERTH_SCRIPT_OWN-}" ]; then berth_before=$berth_script berth_script=; fi
  eval "berth_script=\\$berth_script\\$BERTH_SCRIPT_$berth_piece; unset BERTH_SCRIPT_$berth_piece"
  berth_piece=$((berth_piece + 1))
done
unset berth_piece BERTH_SCRIPT_OWN
berth_line="
"
if [ -n "${BERTH_LEASE-}" ]; then
  (trap '' TERM HUP INT
   (n=0; while :; do n=$((n + 1)); echo "${BERTH_ATTEMPT_ID-} $n" >|"$BERTH_LEASE" || :; sleep @every@; done) \\
     </dev/null >/dev/null 2>&1 &)
fi
""".replace("@every@", str(LEASE_EVERY_S))
_RUN = (
    'eval "$1"; shift; eval "$berth_before"; '
    'if eval "[ 0 = \\"\\${LINENO-}\\" ]"; then berth_script=$berth_line$berth_script; fi; eval "$berth_script"'
)
"""Runs the script on one line, so that shells count lines from the job's own commands: error messages then name the
line in the job file. In busybox the first evaluated line is line 0."""

_AROUND = """\
exec 3>&2 2>/dev/null
trap 'berth_patience=${BERTH_GRACE_SECONDS:-30} berth_stopped=1' TERM
berth_patience=5 berth_stopped=
if command -v bash >/dev/null; then bash -e -c '@run@' bash "$0" 2>&3 3>&-; else sh -e -c '@run@' sh "$0" 2>&3 3>&-; fi
code=$? looks=0 session=
if read -r line <"/proc/$$/stat"; then set -- ${line##*) }; session=$4; fi
ignores_term() {
  while read -r name value; do
    case $name$value in SigIgn:*[4-7c-f]???) return 0;; esac
  done <"$1/status"
  return 1
}
is_waited_for() {
  read -r line <"$1/stat" || return 1
  set -- "$1" ${line##*) }
  [ "$5" = "$session" ] && [ "$2" != Z ] && [ "$1" != /proc/$$ ] && [ "$1" != "/proc/$session" ] || return 1
  if [ "$berth_stopped" ]; then ! ignores_term "$1"; else [ -p "$1/fd/0" ]; fi
}
somebody_is() {
  for process in /proc/[0-9]*; do
    if is_waited_for "$process"; then return 0; fi
  done
  return 1
}
while [ $looks -lt $((5 * berth_patience)) ] && somebody_is; do
  sleep 0.2 || sleep 1 || break
  looks=$((looks + 1))
done
exit $code
""".replace("@run@", _RUN)
"""Waits after the script: those that still read its output get five seconds, or after SIGTERM the whole grace period
for every process of its session, except its leader (such as init). Polls five times a second, and only while there is
somebody."""


def script_environment(script: str) -> dict[str, str]:
    """The variables that carry the script: ``BERTH_SCRIPT``, and ``BERTH_SCRIPT_1`` ... for what does not fit, and for
    the job's own commands where others come before them."""
    before, mark, own = script.partition(OWN_COMMANDS)
    first = _pieces(before) if mark else []
    pieces = [*first, *_pieces(own if mark else script)]
    rest = {f"{SCRIPT_VARIABLE}_{number}": piece for number, piece in enumerate(pieces[1:], 1)}
    return {SCRIPT_VARIABLE: pieces[0], **rest} | ({_OWN_VARIABLE: str(len(first))} if first else {})


def script_command() -> list[str]:
    """The fixed command of every container. It holds no word of the job's, for ``ps`` shows it to everybody."""
    return ["/bin/sh", "-c", _AROUND, _MAIN]


def _pieces(script: str) -> list[str]:
    """Splits ``script`` so that no piece is longer than a variable may be, whatever its characters."""
    data, pieces, start = script.encode(), [], 0
    while len(data) - start > _PIECE:
        end = start + _PIECE
        while data[end] & 0xC0 == 0x80:
            end -= 1
        pieces.append(data[start:end].decode())
        start = end
    return [*pieces, data[start:].decode()]
