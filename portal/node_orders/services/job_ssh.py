"""SSH between the tasks of one job (OpenPAI's ``jobssh``): a key pair per job attempt, and host names ``role-index``
for its tasks. See ``docs/decisions/ssh.md``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from django.utils.crypto import salted_hmac

from portal.job_file.model import JobSpec
from portal.job_file.rules import pai_role
from portal.node_orders.services.environment import Peer

JOB_SSH_VARIABLE = "BERTH_JOB_SSH"
"""Tells a task's SSH server that the job's key is its host key."""
BARRIER_EXIT = 249  # as in OpenPAI
_PORT = "ssh"

_KEY = """\
berth_job_ssh() (
  set +e
  umask 077
  folder=/tmp/.berth-job-ssh home=$HOME/.ssh
  mkdir -p "$folder" "$home" || exit 0
  cat >"$folder/config" <<'BERTH_END'
{hosts}BERTH_END
  echo 'berth-job {public}' >"$folder/known_hosts"
  cat >"$folder/key.new" <<'BERTH_END'
{private}BERTH_END
  mv "$folder/key.new" "$folder/key"
  if ! grep -qsxF "Include $folder/config" "$home/config"; then
    {{ echo "Include $folder/config"; cat "$home/config" 2>/dev/null; }} >"$home/config.berth"
    mv "$home/config.berth" "$home/config"
  fi
  exit 0
)
berth_job_ssh
unset -f berth_job_ssh
"""
_HOST = "Host {names}\n  HostName {address}\n  Port {port}\n"
_ALL = """\
Host {names}
  HostKeyAlias berth-job
  IdentityFile /tmp/.berth-job-ssh/key
  IdentitiesOnly yes
  UserKnownHostsFile /tmp/.berth-job-ssh/known_hosts
"""
_BARRIER = """\
berth_barrier() (
  set +e
  until=$(($(date +%s) + {seconds}))
  for host in {names}; do
    until ssh -n -o BatchMode=yes -o ConnectTimeout=5 "$host" true 2>/dev/null; do
      if [ "$(date +%s)" -ge "$until" ] || ! command -v ssh >/dev/null; then
        echo "SSH barrier: $host cannot be reached by ssh" >&2
        exit {code}
      fi
      sleep 1
    done
  done
)
berth_barrier || {otherwise}
unset -f berth_barrier
"""


def job_key(attempt_id: int) -> Ed25519PrivateKey:
    """A job attempt's key, derived deterministically: it is stored nowhere."""
    seed = salted_hmac("berth.jobs.ssh", str(attempt_id), algorithm="sha256").digest()
    return Ed25519PrivateKey.from_private_bytes(seed)


def public_line(key: Ed25519PrivateKey) -> str:
    """Public half, as in authorized_keys."""
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def private_text(key: Ed25519PrivateKey) -> str:
    """Its file format; encoded differently each time."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def job_ssh_script(spec: JobSpec, *, key: Ed25519PrivateKey, private: str, me: Peer, peers: Sequence[Peer]) -> str:
    """Commands run before the task's own; empty if it takes no part, or is alone. ``private``: the key's text."""
    wish = spec.job_ssh(me.role)
    others = [peer for peer in peers if peer.address and peer.ports.get(_PORT) and spec.job_ssh(peer.role)]
    if wish is None or len(peers) < 2 or not others:
        return ""
    names = " ".join(map(_names, others))
    hosts = [_HOST.format(names=_names(one), address=one.address, port=one.ports[_PORT][0]) for one in others]
    begun = _KEY.format(hosts="".join([*hosts, _ALL.format(names=names)]), public=public_line(key), private=private)
    waited_for = " ".join(shlex.quote(_name(one)) for one in others if one is not me)
    if not wish.barrier_s or not waited_for:
        return begun
    otherwise = ":" if wish.failure_policy == "ignore" else f"exit {BARRIER_EXIT}"
    barrier = _BARRIER.format(seconds=wish.barrier_s, names=waited_for, code=BARRIER_EXIT, otherwise=otherwise)
    return begun + barrier


def _name(peer: Peer) -> str:
    return f"{peer.role}-{peer.index}"


def _names(peer: Peer) -> str:
    """All host names of the task: scripts written for OpenPAI use its form of the role's name."""
    return " ".join(dict.fromkeys((_name(peer), f"{pai_role(peer.role)}-{peer.index}")))
