"""The files that the containers share: secrets, made once and never changed, and what follows from the address.

Every container has the folder; who may read a file is said by its group, of which each service has one of its own.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from portal.compose.address import Address
from portal.compose.certificates import authority_check, authority_make, leaf_is_good, leaf_make
from portal.compose.refusal import CannotStart, cannot_write

DATABASE, REDIS, PROXY = 10011, 10012, 10013
"""Groups of docker-compose.yml that read what is theirs."""
ACCOUNT = "portal"
"""In Redis, whose own account is off."""
_SECRET_BYTES = 32


def files_make(folder: Path, *, address: Address, certificate: Path, now: datetime) -> None:
    """Everything, where it is not there yet; what an operator has put there is used. Raises CannotStart."""
    try:
        folder.chmod(0o711)
        _database(folder)
        password = _redis(folder, address)
        (folder / "keys").mkdir(mode=0o700, exist_ok=True)
        _authority_restored(folder)
        authority = _authority(folder, address, now)
        _authority_keep(folder, authority)
        _redis_certificate(folder, authority, address, now)
        # By which servers know the portal; empty: by what their systems know.
        portal_authority = authority[0] if address.certificate == "internal" else ""
        _write(folder / "portal-ca.crt", portal_authority, 0o444)
        _write(folder / "redis.conf", redis_conf(password), 0o440, REDIS)
        _write(folder / "Caddyfile", caddyfile(address, certificate, authority[0]), 0o444)
    except OSError as error:
        raise cannot_write(error, folder, "BERTH_SECRETS") from None


def data_prepare(folder: Path) -> None:
    """The data folder's place for what is still coming in: it may be large, and a container's own is memory. Raises
    CannotStart."""
    try:
        (folder / "tmp").mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise cannot_write(error, folder, "BERTH_DATA") from None


def _database(folder: Path) -> None:
    _once(folder / "database-password", secrets.token_urlsafe(_SECRET_BYTES), 0o440, DATABASE)


def _redis(folder: Path, address: Address) -> str:
    password = _once(folder / "redis-password", secrets.token_urlsafe(_SECRET_BYTES), 0o440, REDIS)
    checked = "ssl_cert_reqs=required&ssl_check_hostname=true&ssl_ca_certs=/run/berth/ca.crt"
    url = f"rediss://{ACCOUNT}:{quote(password, safe='')}@redis:6379/0?{checked}"
    _write(folder / "redis-url", f"{url}\n", 0o400)
    _write(folder / "redis-nodes-url", f"rediss://{address.bracketed}:{address.redis_port}/0\n", 0o400)
    return password


def _authority(folder: Path, address: Address, now: datetime) -> tuple[str, str]:
    certificate, key = folder / "ca.crt", folder / "ca.key"
    if certificate.exists() != key.exists():
        there, missing = (certificate, key) if certificate.exists() else (key, certificate)
        raise CannotStart(f"{there.name} is there and {missing.name} is not: put both there, or neither.")
    if not certificate.exists():
        made, made_key = authority_make(name=address.host, now=now)
        _write(key, made_key, 0o440, PROXY)
        _write(certificate, made, 0o444)
    authority_check(certificate, key, now=now)
    # Also one that somebody has put there: the proxy signs with it, and Redis and the proxy show it.
    _permit(key, 0o440, PROXY)
    _permit(certificate, 0o444, None)
    return certificate.read_text(), key.read_text()


def _authority_keep(folder: Path, authority: tuple[str, str]) -> None:
    """Among the keys too, which a backup holds: servers that have joined know the stack by its authority alone."""
    certificate, key = authority
    if _text(folder / "keys" / "ca.crt") != certificate or _text(folder / "keys" / "ca.key") != key:
        _write(folder / "keys" / "ca.key", key, 0o400)
        _write(folder / "keys" / "ca.crt", certificate, 0o400)
    if _text(folder / "ca.kept") != certificate:
        _write(folder / "ca.kept", certificate, 0o400)


def _authority_restored(folder: Path) -> None:
    """Takes the authority over that a restore has put among the keys: it is another than was kept there last. One that
    an operator has put beside them is kept there after this."""
    certificate, key = _text(folder / "keys" / "ca.crt"), _text(folder / "keys" / "ca.key")
    if certificate and key and certificate != _text(folder / "ca.kept"):
        _write(folder / "ca.key", key, 0o440, PROXY)
        _write(folder / "ca.crt", certificate, 0o444)


def _redis_certificate(folder: Path, authority: tuple[str, str], address: Address, now: datetime) -> None:
    path, key_path = folder / "redis.crt", folder / "redis.key"
    hosts = list(dict.fromkeys([address.host, "redis", "localhost", "127.0.0.1"]))
    there = path.read_text() if path.exists() and key_path.exists() else ""
    if not leaf_is_good(there, authority=authority[0], hosts=hosts, now=now):
        made, key = leaf_make(authority=authority[0], authority_key=authority[1], hosts=hosts, now=now)
        _write(key_path, key, 0o440, REDIS)
        _write(path, made, 0o444)


def redis_conf(password: str) -> str:
    """Redis' own settings: TLS only, an account for the portal beside those it makes for nodes, nothing on disk."""
    return f"""\
port 0
tls-port 6379
tls-cert-file /run/berth/redis.crt
tls-key-file /run/berth/redis.key
tls-ca-cert-file /run/berth/ca.crt
tls-auth-clients no
user default off
user {ACCOUNT} on #{hashlib.sha256(password.encode()).hexdigest()} ~* &* +@all
save ""
appendonly no
dir /tmp
"""


def caddyfile(address: Address, certificate: Path, authority: str) -> str:
    """Caddy's settings. It takes what clients say of themselves in X-Forwarded-* from nobody, which is its default.
    ``authority``: the certificate with which it signs, where nobody else does."""
    # Caddy keeps what it has signed under the authority's name, and would show it to who knows another one by then.
    name = f"berth-{hashlib.sha256(authority.encode()).hexdigest()[:16]}"
    tls = {
        "automatic": "",
        "internal": f"\ttls {{\n\t\tissuer internal {{\n\t\t\tca {name}\n\t\t}}\n\t}}\n",
        "files": f"\ttls {certificate}/certificate.pem {certificate}/key.pem\n",
    }[address.certificate]
    # The authority is Caddy's only where it signs: elsewhere Caddy need not be able to read the key.
    pki = f"""
	pki {{
		ca {name} {{
			name Berth
			root {{
				cert /run/berth/ca.crt
				key /run/berth/ca.key
			}}
		}}
	}}"""
    return f"""\
{{
	admin off
	skip_install_trust
	http_port {address.http_port}
	default_sni {address.host}
	servers {{
		protocols h1 h2
	}}{pki if address.certificate == "internal" else ""}
}}

{address.url} {{
{tls}	reverse_proxy {{
		dynamic a web 8000
		lb_try_duration 5s
	}}
}}

http://:8081 {{
	bind 127.0.0.1
	respond /healthz ok
}}
"""


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _once(path: Path, text: str, mode: int, group: int) -> str:
    """The file's text, made where there is none. Raises CannotStart for an empty one."""
    if not path.exists():
        _write(path, text + "\n", mode, group)
    found = path.read_text().strip()
    if not found or not found.isprintable() or not found.isascii():
        raise CannotStart(f"{path}: must hold one line of ASCII characters.")
    _permit(path, mode, group)
    return found


def _write(path: Path, text: str, mode: int, group: int | None = None) -> None:
    """Put it there as a whole."""
    fresh = path.with_name(f".{path.name}")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    _permit(fresh, mode, group)
    fresh.rename(path)


def _permit(path: Path, mode: int, group: int | None) -> None:
    if group is not None and path.stat().st_gid != group:
        os.chown(path, -1, group)
    path.chmod(mode)
