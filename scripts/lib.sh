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

# The same with a line every few seconds, which says how long it has taken and what came last.
watched() {
  local out ticker result=0
  out=$(mktemp)
  _tell_progress "$out" &
  ticker=$!
  "$@" >"$out" 2>&1 || result=$?
  { kill $ticker && wait $ticker; } 2>/dev/null || true
  [ $result = 0 ] || tail -n 25 "$out" >&2
  rm -f "$out"
  return $result
}
_tell_progress() {
  local seconds=0
  while sleep 5 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    printf '  %d s %s\n' $((seconds += 5)) "$(tail -n 1 "$1" | tr -d '\r' | cut -c 1-100)"
  done
}

is_root() { [ "$(id -u)" = 0 ]; }
has_apt() { command -v apt-get >/dev/null; }

# apt_install PACKAGE...: installs on Debian and Ubuntu when root, else answers false.
apt_install() {
  is_root && has_apt || return 1
  export DEBIAN_FRONTEND=noninteractive
  watched apt-get install -y -q --no-install-recommends "$@" && return
  watched apt-get update -q && watched apt-get install -y -q --no-install-recommends "$@"
}

# One certificate bundle for every installer, where the environment names one.
if [ -n "${SSL_CERT_FILE:-}" ]; then
  export PIP_CERT=${PIP_CERT:-$SSL_CERT_FILE} NODE_EXTRA_CA_CERTS=${NODE_EXTRA_CA_CERTS:-$SSL_CERT_FILE}
fi
# One package index for pip and uv.
[ -z "${PIP_INDEX_URL:-}" ] || export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}
