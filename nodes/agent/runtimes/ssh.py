"""SSH into a task: the image's own server, started beside the task's script with the task's own rights; see
``docs/decisions/ssh.md``.

Output of a container is untrusted: it is cut, checked, and believed in nothing else.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence

import structlog

from nodes.agent.runtimes.base import Runtime, RuntimeUnavailable
from nodes.protocol import wordings
from nodes.protocol.messages import SshAccess, SshServer

KEYS_NAME = "authorized_keys"
OPEN_WITHIN_S = 20.0
ANSWER_LIMIT = 4096
MARK = "berth-ssh"
"""Name of the starting shell."""
FORBIDDEN = SshServer(message=wordings.NO_SHELLS())
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_HOST_KEY = re.compile(r"[a-z0-9-]{1,40} [A-Za-z0-9+/]{16,1000}={0,2}")
_KEY = re.compile(r"[a-z0-9@.-]{1,64} [A-Za-z0-9+/]{16,12000}={0,2}")

log = structlog.get_logger(__name__)

# What is said: "open USER KEY-TYPE KEY" or "none WHY". Asked again, it says again what is there.
_SCRIPT = r"""
umask 077
port=$1 keys=$2 folder=/tmp/.berth-ssh-$BERTH_ATTEMPT_ID
none() { echo "none $*"; exit 0; }
if [ -s "$folder/told" ]; then cat "$folder/told"; exit 0; fi
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
berth_path=${PATH%:/usr/local/sbin:/usr/sbin:/sbin}
server=$(command -v sshd) || none "its image has no SSH server: install openssh-server in it"
maker=$(command -v ssh-keygen) || none "its image has no ssh-keygen: install openssh-client in it"
user=$(id -un) || none "the image has no name for its user"
rm -rf "$folder"; mkdir -m 700 "$folder" || none "its /tmp cannot be written"
left=100 shared=/tmp/.berth-job-ssh/key
while [ -n "${BERTH_JOB_SSH-}" ] && [ ! -s $shared ] && [ $left -gt 0 ]; do
  left=$((left - 1)); sleep 0.1 2>/dev/null || sleep 1
done
if [ -n "${BERTH_JOB_SSH-}" ] && [ -s $shared ]; then
  cp $shared "$folder/host_key" && "$maker" -y -f "$folder/host_key" >"$folder/host_key.pub"
else
  "$maker" -q -t ed25519 -N '' -C '' -f "$folder/host_key" >/dev/null 2>&1
fi
[ -s "$folder/host_key.pub" ] || none "ssh-keygen made no host key"
if [ "$(id -u)" = 0 ]; then
  mkdir -p -m 755 /run/sshd
  if [ -d /etc/profile.d ]; then
    echo 'if [ -n "${BERTH_PATH-}" ]; then PATH=$BERTH_PATH; fi' >/etc/profile.d/berth-path.sh
    chmod 644 /etc/profile.d/berth-path.sh
  fi
fi
cat >"$folder/plain" <<END
Port $port
HostKey $folder/host_key
PidFile $folder/pid
AuthorizedKeysFile $keys
StrictModes no
AllowUsers $user
PubkeyAuthentication yes
AuthenticationMethods publickey
PasswordAuthentication no
ChallengeResponseAuthentication no
HostbasedAuthentication no
PermitEmptyPasswords no
PermitRootLogin prohibit-password
PermitUserEnvironment no
UsePAM no
UseDNS no
AllowAgentForwarding no
X11Forwarding no
PermitTunnel no
GatewayPorts no
AllowTcpForwarding yes
LoginGraceTime 30
MaxStartups 10:30:60
ClientAliveInterval 60
PrintMotd no
Subsystem sftp internal-sftp
END
told="SetEnv \"BERTH_PATH=$berth_path\" \"PATH=$berth_path\""
for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
  case $name in
    BERTH_SCRIPT*|BERTH_LEASE|BERTH_PATH|PATH|HOME|USER|LOGNAME) continue ;;
    SHELL|PWD|OLDPWD|SHLVL|HOSTNAME|TERM|TINI_*|_) continue ;;
  esac
  eval "value=\${$name-}"
  case $value in ''|*[\"\\\']*|*'
'*) continue ;; esac
  told="$told \"$name=$value\""
done
{ cat "$folder/plain"; echo "$told"; } >"$folder/config"
"$server" -t -f "$folder/config" >/dev/null 2>&1 || cp "$folder/plain" "$folder/config"
"$server" -f "$folder/config" -E "$folder/log" >"$folder/said" 2>&1 </dev/null
left=50
while [ ! -s "$folder/pid" ] && [ $left -gt 0 ]; do left=$((left - 1)); sleep 0.1 2>/dev/null || sleep 1; done
[ -s "$folder/pid" ] || none "its SSH server did not start: $(cat "$folder/said" "$folder/log" 2>/dev/null | tail -n 1)"
read -r kind key rest <"$folder/host_key.pub"
echo "open $user $kind $key" >"$folder/told"
cat "$folder/told"
"""


def ssh_command(port: int, keys: str) -> list[str]:
    """The command that starts the server in a container; ``keys``: where the container sees its authorized_keys."""
    return ["/bin/sh", "-c", _SCRIPT, MARK, str(port), keys]


def ssh_answer(output: bytes) -> SshServer:
    """Parses what the container said of its server."""
    line = output.decode(errors="replace").strip().partition("\n")[0]
    word, _, rest = line.partition(" ")
    user, _, key = rest.partition(" ")
    if word == "open" and _USER.fullmatch(user) and _HOST_KEY.fullmatch(key):
        return SshServer(user=user, host_key=key)
    why = "".join(letter for letter in rest if letter.isprintable())[:300]
    return SshServer(message=why if word == "none" and why else wordings.NO_SERVER())


def ssh_keys_text(keys: Sequence[str]) -> str:
    """The authorized_keys file. A line that is more than a plain key, such as one with options, is left out."""
    return "".join(f"{key}\n" for key in keys if _KEY.fullmatch(key))


class SshSetup:
    """Sets up SSH for one task: its keys, each time they change, and its server, once. Never blocks: a container may
    never answer."""

    def __init__(self, attempt: str, runtime: Runtime, woken: Callable[[], None]) -> None:
        self._attempt, self._runtime, self._woken = attempt, runtime, woken
        self._keys: str | None = None
        self._answer: SshServer | None = None
        self._opening: threading.Thread | None = None

    def look(self, wanted: SshAccess, *, opened: bool) -> SshServer | None:
        """Updates keys and server. Once, and unless it is ``opened`` already, what became of the server."""
        keys = ssh_keys_text(wanted.keys)
        if keys != self._keys:
            try:
                self._runtime.ssh_keys(self._attempt, keys)
            except OSError as error:
                log.warning("the keys of a task cannot be written", attempt=self._attempt, error=str(error))
                return None
            self._keys = keys
        if opened or self._answer is not None:
            return None if opened else self._answer
        if self._opening is None or not self._opening.is_alive():
            self._opening = threading.Thread(target=self._open, args=(wanted.port,), name="ssh-open", daemon=True)
            self._opening.start()
        return None

    def _open(self, port: int) -> None:
        try:
            self._answer = self._runtime.ssh_open(self._attempt, port)
        except RuntimeUnavailable as away:
            log.info("an SSH server is not started yet", attempt=self._attempt, error=str(away))
        except Exception:
            log.exception("an SSH server could not be started", attempt=self._attempt)
            self._answer = SshServer(message=wordings.NO_SERVER())
        if self._answer is not None:
            self._woken()


def ssh_note(port: int, server: SshServer) -> str:
    """The line for the task's log."""
    if not server.user:
        return f"no SSH into this task: {server.message}"
    return f"SSH: port {port}, user {server.user}, with the keys of the profile of whoever submitted the job"
