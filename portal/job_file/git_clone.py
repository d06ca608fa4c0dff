"""The plug-in `git`: lines that clone a repository before a task's commands. See `docs/decisions/git.md`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

from portal.job_file import raw
from portal.job_file.plugins import Entry

DEFAULT_FOLDER: Final = "code"
"""Relative to the working folder: OpenPAI's `$PAI_WORK_DIR/code`."""

CLONE: Final = r"""berth_git() {
trap 'exit 143' TERM
policy=$1 given=$2 uri=$3 folder=$4
shift 4
split() { # the address $1 as $bare, without its $login
  bare=$1 login=
  case $1 in *://*@*) ;; *) return 0 ;; esac
  rest=${1#*://}
  host=${rest%%[/?#]*}
  case $host in *@*) ;; *) return 0 ;; esac
  login=${host%@*}
  bare=${1%%://*}://${rest#"$login@"}
}
decoded() { # $1 with its %XX as the characters they stand for
  rest=$1 text=
  while :; do
    case $rest in *%[0-9A-Fa-f][0-9A-Fa-f]*) ;; *) break ;; esac
    head=${rest%%\%[0-9A-Fa-f][0-9A-Fa-f]*}
    rest=${rest#"$head%"}
    hex=${rest%"${rest#??}"}
    rest=${rest#??}
    text=$text$head$(printf '%b' "\\0$(printf '%o' "0x$hex")")
  done
  printf '%s' "$text$rest"
}
failed() {
  case $policy in ignore) next='goes on without it' ;; *) next='ends here' ;; esac
  printf 'git plug-in: %s. The task %s (failurePolicy: %s).\n' "$1" "$next" "$policy" >&2
  exit 1
}
inside() { git -c 'safe.directory=*' -C "$folder" "$@" 2>/dev/null; }
told() {
  commit=$(inside rev-parse --verify HEAD) || commit='none yet'
  printf 'git plug-in: %s %s (commit %s) in %s\n' "$1" "$shown" "$commit" "$folder"
}
there() { # whether the clone is there already; one that was broken off is removed
  case $(inside rev-parse --git-dir) in .git | .) ;; *) return 1 ;; esac
  found=$(inside config --local --get-regexp '^remote\..*\.url$') || return 1
  found=${found%%[[:space:]]remote.*}
  split "${found#* }"
  [ "$bare" = "$shown" ] || return 1
  case $(inside config --local berth.clone) in
    '') return 0 ;;
    "$run $task") ;;
    "$run "*) failed "another task of this job clones to $folder now: give a clone_dir that tasks do not share" ;;
    "${BERTH_JOB-} "*) ;; # an earlier attempt
    *) failed "another job clones to $folder, or was ended while it did: give a clone_dir of its own, or remove it" ;;
  esac
  rm -rf -- "$folder" || :
  return 1
}
split "$uri"
case $bare in http://*@* | https://*@*)
  failed 'repo_uri has an @ behind its host: in a log-in write /, ? and # as %2F, %3F and %23, in a path @ as %40' ;;
esac
shown=$bare run="${BERTH_JOB-} ${BERTH_JOB_ATTEMPT-}" task=${BERTH_TASK_RANK-}
command -v git >/dev/null 2>&1 ||
  failed "$shown is not cloned, since git is not installed here: take an image that has it, or add it to this one"
if there; then
  told 'found, and left as it is:'
  exit 0
fi
split "$uri"
case $uri in http://* | https://*) login=${given:-$login} ;; *) login= ;; esac
if [ -n "$login" ]; then
  uri=$bare site=${bare#*://}
  export BERTH_GIT_USER="$(decoded "${login%%:*}")" BERTH_GIT_PASSWORD=
  case $login in *:*) BERTH_GIT_PASSWORD=$(decoded "${login#*:}") ;; esac
  site=credential.${bare%%://*}://${site%%[/?#]*}.helper
  answer='!f() { printf "%s\n" "username=$BERTH_GIT_USER" "password=$BERTH_GIT_PASSWORD"; }; f'
fi
export GIT_TERMINAL_PROMPT=0 GIT_ASKPASS= SSH_ASKPASS_REQUIRE=never
away() { # whether the server, and not what is asked of it, is why
  said=$(LC_ALL=C git ${login:+-c credential.helper= -c "$site=$answer"} ls-remote -- "$uri" </dev/null 2>&1) &&
    return 1
  case $said in
    *'Could not resolve host'* | *'emporary failure in name resolution'* | *'onnection refused'*) ;;
    *'onnection timed out'* | *'peration timed out'* | *'onnection reset'* | *'Failed to connect'*) ;;
    *'returned error: 429'* | *'returned error: 5'* | *'unexpected disconnect'* | *'Empty reply'*) ;;
    *) return 1 ;;
  esac
}
running() { # for how many seconds the machine has been
  read -r up idle </proc/uptime
  printf '%s' "${up%.*}"
}
begun=$(running) pause=5
until git ${login:+-c credential.helper= -c "$site=$answer"} clone --config "berth.clone=$run $task" "$@" \
  -- "$uri" "$folder" </dev/null; do
  away || failed "$shown is not cloned to $folder, for the reason above: correct repo_uri, options or clone_dir; a \
private repository wants its login in repo_uri, from a secret"
  waited=$(($(running) - begun))
  [ "$((waited + pause))" -le "${BERTH_GIT_RETRY:-0}" ] ||
    failed "$shown is not cloned to $folder, for the reason above: its server was tried for $waited s"
  printf 'git plug-in: %s cannot be had now. It is tried again in %s s, for %s s in all.\n' \
    "$shown" "$pause" "$BERTH_GIT_RETRY" >&2
  sleep "$pause"
  pause=$((pause < 160 ? pause * 2 : 300))
done
inside config --local --unset berth.clone || :
told cloned
}"""
"""Called with the failure policy, the login as far as it is known, the repository's address, the folder and the options
of `git clone`. For any `sh`, in a subshell of its own.

Git gets a login in the address by its environment, so that it appears neither in the clone's settings nor in `ps` nor
in git's messages. `berth.clone` marks a clone until it is complete.
"""

FORGET: Final = "unset -f berth_git"

_LOGIN = re.compile(r"(https?://)((?:<%[^%]*%>|[^/?#<]|<(?!%))*)@(.*)", re.DOTALL)
"""Scheme, login and rest of an address; a reference in the login may bring in any characters."""
_PART = re.compile(
    r"""(?P<reference><%[^%]*%>)|'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)"""
    r"""|(?P<blank>\s+)|(?P<open>['"\\])|(?P<plain>[^\s'"\\<]+|<)""",
    re.DOTALL,
)
_ESCAPED = re.compile(r"""\\(["\\])""")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))(?=/|\Z)")
_END = "BERTH_WORD"


def clone_lines(entry: Entry) -> Iterator[str]:
    """The lines of one entry of the plug-in `git`, once `CLONE` is defined; none if it names no repository."""
    parameters = entry.parameters
    address = raw.text(parameters.get("repo_uri"))
    if address is None:
        return
    ignored = entry.failure_policy == "ignore"
    scheme, login, rest = found.groups() if (found := _LOGIN.fullmatch(address)) else ("", "", address)
    yield f"(\nset -- {'ignore' if ignored else 'fail'}"
    yield _appended(login)
    yield _appended(scheme + rest)
    yield _appended(raw.text(parameters.get("clone_dir")) or DEFAULT_FOLDER, variable=True)
    for option in raw.texts(parameters.get("options")):
        yield from map(_appended, option_words(option) or ())
    yield f'berth_git "$@"\n) || {":" if ignored else "exit $?"}'


def option_words(option: str) -> list[str] | None:
    """Splits one entry of `options` into words, quoted as in a shell; a reference is part of its word.

    None if a quote is not closed or a backslash is last. (`shlex` takes seconds for what a file may hold.)
    """
    words: list[str | None] = [None]
    for part in _PART.finditer(option):
        kind, text = part.lastgroup, part[part.lastgroup or 0]
        if kind == "open":
            return None
        if kind == "blank":
            words.append(None)
        else:
            words[-1] = (words[-1] or "") + (_ESCAPED.sub(r"\1", text) if kind == "double" else text)
    return [word for word in words if word is not None]


def _appended(word: str, *, variable: bool = False) -> str:
    """A line that appends `word` to the arguments, whatever it contains; with `variable`, a leading variable is the
    task's. The values of references are not known here, so those are read and not quoted."""
    head = ""
    if variable and (found := _VARIABLE.match(word)):
        head, word = f'"${{{found[1] or found[2]}:?}}"', word[found.end() :]
    if "<%" not in word:
        return f'set -- "$@" {head}{shlex.quote(word)}'
    reading = f"word=; while IFS= read -r line; do word=$word$line; done <<'{_END}'\n={word}\n{_END}"
    return f'{reading}\nset -- "$@" {head}"${{word#=}}"'
