# Shared by the setup scripts: one line for what happens, one line for what is wrong.
say() { printf -- '- %s\n' "$*"; }
fail() { printf 'berth: %s\n' "$*" >&2; exit 1; }

# Run quietly; show the output only when it fails.
quietly() {
  local out
  out=$(mktemp)
  if "$@" >"$out" 2>&1; then rm -f "$out"; else
    tail -n 25 "$out" >&2
    rm -f "$out"
    return 1
  fi
}

is_root() { [ "$(id -u)" = 0 ]; }
has_apt() { command -v apt-get >/dev/null; }

# apt_install PACKAGE...: installs on Debian and Ubuntu when root, else answers false.
apt_install() {
  is_root && has_apt || return 1
  export DEBIAN_FRONTEND=noninteractive
  quietly apt-get install -y -q --no-install-recommends "$@" && return
  quietly apt-get update -q && quietly apt-get install -y -q --no-install-recommends "$@"
}

# One certificate bundle for every installer, where the environment names one.
if [ -n "${SSL_CERT_FILE:-}" ]; then
  export PIP_CERT=${PIP_CERT:-$SSL_CERT_FILE} NODE_EXTRA_CA_CERTS=${NODE_EXTRA_CA_CERTS:-$SSL_CERT_FILE}
fi
# One package index for pip and uv.
[ -z "${PIP_INDEX_URL:-}" ] || export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}
