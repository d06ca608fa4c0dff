"""The plug-in `git` at work: the script of a task, in each of the shells that images have, clones with a real git."""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import quote

import pytest

from nodes.agent.runtimes.script import script_command, script_environment
from portal.job_file.templates import render_script
from tests.support.cluster.job_files import spec
from tests.support.run.waiting import wait_until

PLUGINS = "extras/com.microsoft.pai.runtimeplugin"
AUTHOR = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@x", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@x"}
ARGUMENTS = '#!/bin/sh\nprintf "%s\\n" "$@" >>"$SEEN"\nexec {git} "$@"\n'
TIDIES = """#!/bin/sh
[ "$1" = clone ] || exit 1
trap 'sleep 0.5; touch tidy; exit 1' TERM
touch ready
while :; do sleep 0.1; done
"""


class Place:
    """A working folder with a whole `PATH` of its own, and a repository to clone."""

    def __init__(self, folder: Path, shell: str, like: Path | None = None) -> None:
        """``like``: the folder of another place, whose repository it has."""
        self.folder, self.work, self.bin = folder, folder / "work", folder / "bin"
        self.seen, self.hangs = folder / "arguments", Event()
        for one in (self.work, self.bin):
            one.mkdir()
        (self.bin / ("bash" if shell == "bash" else "sh")).symlink_to(str(shutil.which(shell)))
        for tool in ("cat", "env", "grep", "ls", "rm"):
            (self.bin / tool).symlink_to(str(shutil.which(tool)))
        (self.bin / "git").write_text(ARGUMENTS.format(git=shutil.which("git")))
        (self.bin / "git").chmod(0o755)
        self.bare = folder / "web" / "a b.git"
        if like is None:
            self._make()
        else:
            for part in ("source", "web"):
                shutil.copytree(like / part, folder / part)
        self.commit = self.git("-C", self.bare, "rev-parse", "main")
        self.uri = f"file://{self.bare}"

    def _make(self) -> None:
        self.git("init", "-q", "-b", "main", self.folder / "source")
        self.change("one")
        self.git("clone", "-q", "--bare", self.folder / "source", self.bare)
        self.git("-C", self.bare, "update-server-info")

    def git(self, *words: Any) -> str:
        env = {**os.environ, **AUTHOR, "GIT_CONFIG_GLOBAL": "/dev/null"}
        done = subprocess.run(["git", *map(str, words)], env=env, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def change(self, word: str) -> str:
        """Commits a file that says `word`; returns the commit."""
        source = self.folder / "source"
        (source / "train.py").write_text(f"{word}\n")
        self.git("-C", source, "add", ".")
        self.git("-C", source, "commit", "-q", "-m", word)
        return self.git("-C", source, "rev-parse", "HEAD")

    def start(self, *plugins: dict[str, Any], secrets: dict[str, Any] | None = None, **env: str) -> Any:
        changes = ((PLUGINS, list(plugins)), ("secrets", secrets or {"none": ""}))
        role = spec(*changes, ("taskRoles/train/commands", ["echo then"])).role("train")
        task = {"BERTH_JOB": "alice/a#1", "BERTH_JOB_ATTEMPT": "1", "BERTH_TASK_RANK": "0", "SEEN": str(self.seen)}
        whole = {"PATH": str(self.bin), "HOME": str(self.folder), **task, **env}
        return subprocess.Popen(
            script_command(),
            env=whole | script_environment(render_script(role, secrets or {})),
            cwd=self.work,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *plugins: dict[str, Any], **given: Any) -> tuple[int, str]:
        """The exit status and everything that was printed."""
        process = self.start(*plugins, **given)
        out, _ = process.communicate(timeout=60)
        return process.returncode, out

    def login_kept(self, word: str) -> bool:
        """Whether `word` stands in what `git` was called with or in a file of the working folder."""
        files = [self.seen, *(one for one in self.work.rglob("*") if one.is_file())]
        return any(word.encode() in one.read_bytes() for one in files)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the repository was made that all others are copies of."""
    return Place(tmp_path_factory.mktemp("made"), "bash").folder


@pytest.fixture(params=["bash", "dash", "busybox"])
def place(request: pytest.FixtureRequest, tmp_path: Path, made: Path) -> Place:
    return Place(tmp_path, request.param, made)


@pytest.fixture
def bash(tmp_path: Path, made: Path) -> Place:
    return Place(tmp_path, "bash", made)


def git(uri: str, policy: str | None = None, **parameters: Any) -> dict[str, Any]:
    entry = {"plugin": "git", "parameters": {"repo_uri": uri, **parameters}}
    return entry | ({"failurePolicy": policy} if policy else {})


class Web(SimpleHTTPRequestHandler):
    """Files, for those who come with the login. `hangs` is set once somebody waits for what does not come."""

    wanted, hangs, released = "", Event(), Event()

    def do_GET(self) -> None:
        login = f"Basic {base64.b64encode(self.wanted.encode()).decode()}"
        if self.path.startswith("/never"):
            self.hangs.set()
            self.released.wait(30)
        if self.path.startswith("/slow"):
            self.released.wait(2)
            self.send_error(503)
            return
        if self.headers["Authorization"] == login:
            super().do_GET()
        else:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *words: Any) -> None:
        pass


@contextmanager
def web(place: Place, login: str) -> Iterator[str]:
    """The host and port of a server that wants this login for the repository."""
    never = Event()

    class One(Web):
        wanted, hangs, released = login, place.hangs, never

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(One, directory=str(place.folder / "web"))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        never.set()
        server.shutdown()


def test_a_repository_is_cloned_before_the_commands_and_its_commit_is_told(place: Place) -> None:
    code, out = place.run(git(place.uri))
    assert code == 0
    assert out.splitlines()[-2:] == [f"git plug-in: cloned {place.uri} (commit {place.commit}) in code", "then"]
    assert (place.work / "code" / "train.py").read_text() == "one\n"
    assert "berth" not in (place.work / "code" / ".git" / "config").read_text()


def test_every_word_is_data(place: Place) -> None:
    name = "A; touch made 'x' $(touch made) `touch made`"
    quoted = name.replace("'", "'\\''")
    folder = "a b; touch made; 'c' $(touch made)"
    code, _ = place.run(git(place.uri, options=["--depth 1", f"--config 'user.name={quoted}'"], clone_dir=folder))
    assert code == 0
    assert place.git("-C", place.work / folder, "config", "user.name") == name
    assert place.git("-C", place.work / folder, "rev-list", "--count", "HEAD") == "1"
    assert [one.name for one in place.work.iterdir()] == [folder]


@pytest.mark.parametrize("uri", ["--upload-pack=touch made", "--no-checkout", "'; touch made; '"])
def test_an_address_is_never_an_option_nor_a_command(bash: Place, uri: str) -> None:
    code, out = bash.run(git(uri, clone_dir=bash.uri))
    assert code == 1
    assert f"git plug-in: {uri} is not cloned to {bash.uri}, for the reason above: " in out
    assert not list(bash.work.iterdir())


@pytest.mark.parametrize(("policy", "code"), [(None, 1), ("fail", 1), ("ignore", 0)])
def test_a_clone_that_fails_ends_the_task_unless_it_is_ignored(place: Place, policy: str | None, code: int) -> None:
    found, out = place.run(git("file:///nowhere", policy))
    assert found == code
    assert "fatal: " in out, "git's own reason"
    if code:
        assert out.splitlines()[-1].endswith("The task ends here (failurePolicy: fail).")
    else:
        assert out.splitlines()[-2].endswith("The task goes on without it (failurePolicy: ignore).")
        assert out.splitlines()[-1] == "then"


AWAY = {
    "no connection": ("http://127.0.0.1:1/a.git", True),
    "a name that is not found": ("http://nowhere.invalid/a.git", True),
    "no repository": ("file:///nowhere/a.git", False),
}


@pytest.mark.parametrize("case", AWAY)
def test_a_server_that_does_not_answer_is_tried_again_for_a_while_and_a_mistake_is_not(place: Place, case: str) -> None:
    uri, again = AWAY[case]
    (place.bin / "sleep").symlink_to(str(shutil.which("sleep")))
    code, out = place.run(git(uri), BERTH_GIT_RETRY="14")
    assert code == 1
    told = f"git plug-in: {uri} cannot be had now. It is tried again in 5 s, for 14 s in all."
    assert (out.count(told), "its server was tried for " in out) == (int(again), again)


def test_the_time_that_a_server_takes_to_fail_counts(place: Place) -> None:
    with web(place, "") as host:
        code, out = place.run(git(f"http://{host}/slow.git"), BERTH_GIT_RETRY="8")
    assert code == 1
    assert "returned error: 503" in out
    assert "is tried again" not in out
    found = re.search(r"its server was tried for (\d+) s", out)
    assert found
    assert int(found[1]) > 3, "two requests of 2 s each"


@pytest.mark.parametrize(("policy", "code"), [("fail", 1), ("ignore", 0)])
def test_an_image_without_git_is_told_what_to_do(bash: Place, policy: str, code: int) -> None:
    (bash.bin / "git").unlink()
    found, out = bash.run(git("https://user:hunter2@git.example.org/a.git", policy))
    assert found == code
    told = (
        "git plug-in: https://git.example.org/a.git is not cloned, since git is not installed here: take an image that"
    )
    assert out.startswith(told)
    assert "hunter2" not in out


def test_a_second_start_leaves_a_clone_as_it_is(place: Place) -> None:
    entry = git(place.uri, clone_dir="$KEPT/code")
    assert place.run(entry, KEPT=str(place.folder))[0] == 0
    (place.folder / "code" / "train.py").write_text("mine\n")
    place.git("-C", place.folder / "source", "push", "-q", place.bare, f"{place.change('two')}:main")
    code, out = place.run(entry, KEPT=str(place.folder), BERTH_JOB_ATTEMPT="2")
    kept = f"git plug-in: found, and left as it is: {place.uri} (commit {place.commit}) in {place.folder}/code"
    assert (code, out.splitlines()) == (0, [kept, "then"])
    assert (place.folder / "code" / "train.py").read_text() == "mine\n"


def test_a_clone_that_was_broken_off_is_made_anew(place: Place) -> None:
    half = place.work / "code"
    place.git("clone", "-q", "--no-checkout", place.uri, half)
    place.git("-C", half, "config", "berth.clone", "alice/a#1 1 0")
    (half / "left").touch()
    assert place.run(git(place.uri), BERTH_JOB_ATTEMPT="2")[0] == 0
    assert sorted(one.name for one in half.iterdir()) == [".git", "train.py"]


def test_a_clone_that_another_task_is_making_is_not_touched(bash: Place) -> None:
    half = bash.work / "code"
    bash.git("clone", "-q", bash.uri, half)
    bash.git("-C", half, "config", "berth.clone", "alice/a#1 1 0")
    code, out = bash.run(git(bash.uri), BERTH_TASK_RANK="1")
    assert code == 1
    assert "another task of this job clones to code now: give a clone_dir that tasks do not share" in out
    assert (half / "train.py").exists()


def test_a_clone_that_another_job_is_making_is_not_touched(place: Place) -> None:
    half = place.work / "code"
    place.git("clone", "-q", place.uri, half)
    place.git("-C", half, "config", "berth.clone", "alice/a#11 1 0")
    code, out = place.run(git(place.uri))
    assert code == 1
    assert "another job clones to code, or was ended while it did: give a clone_dir of its own, or remove it" in out
    assert (half / "train.py").exists()


def test_a_folder_with_something_else_in_it_is_not_touched(bash: Place) -> None:
    bash.git("init", "-q", bash.work / "code")
    bash.git("-C", bash.work / "code", "remote", "add", "origin", "file:///other")
    code, out = bash.run(git(bash.uri))
    assert code == 1
    assert "already exists and is not an empty directory" in out
    assert bash.git("-C", bash.work / "code", "remote", "get-url", "origin") == "file:///other"


def test_an_empty_repository_is_cloned(bash: Place) -> None:
    bash.git("init", "-q", "--bare", bash.folder / "empty.git")
    for word in ("cloned", "found, and left as it is:"):
        code, out = bash.run(git(f"file://{bash.folder}/empty.git"))
        assert code == 0
        assert f"git plug-in: {word} file://{bash.folder}/empty.git (commit none yet) in code" in out


LOGINS = {
    "a token alone": ("<% $secrets.token %>@", "hunter2", "hunter2:"),
    "a password of any letters": ("ann:<% $secrets.token %>@", "h'u\"n$t`e;r\\2 x", "ann:h'u\"n$t`e;r\\2 x"),
    "an encoded one": (f"an%40n:{quote('a/b@c:d%e', safe='')}@", "", "an@n:a/b@c:d%e"),
    "one with a slash": ("ann:<% $secrets.token %>@", "hunt/er2", "ann:hunt/er2"),
    "a token with a slash": ("<% $secrets.token %>@", "hunt/er2", "hunt/er2:"),
    "one that looks like a port": ("ann:<% $secrets.token %>@", "123/er", "ann:123/er"),
    "an at before a slash": ("ann:<% $secrets.token %>@", "h@nt/er2", "ann:h@nt/er2"),
    "what else ends a host": ("ann:<% $secrets.token %>@", "hunt?er#2", "ann:hunt?er#2"),
    "one with an at": ("ann:<% $secrets.token %>@", "hunt@er2", "ann:hunt@er2"),
    "one that ends its line": ("ann:<% $secrets.token %>@", "hunter2\n", "ann:hunter2"),
}


@pytest.mark.parametrize("case", LOGINS)
def test_a_login_in_the_address_lets_in_and_stands_nowhere(place: Place, case: str) -> None:
    written, token, login = LOGINS[case]
    with web(place, login) as host:
        code, out = place.run(git(f"http://{written}{host}/a%20b.git"), secrets={"token": token})
    assert code == 0, out
    assert f"git plug-in: cloned http://{host}/a%20b.git (commit {place.commit}) in code" in out
    assert "@" not in out
    password = login.partition(":")[2] or login.rstrip(":")
    assert not place.login_kept(password)
    assert (place.work / "code" / "train.py").exists()


@pytest.mark.parametrize("login", ["hunt/er2@", "ann:123/er2@", "ann:h@nt/er2@", "ann:hunt?er2@", "ann:hunt#er2@"])
def test_an_address_of_which_nobody_knows_where_its_login_ends_is_refused_and_not_shown(
    place: Place, login: str
) -> None:
    uri = f"https://{login}git.example.org/a.git"
    for written, secrets in ((uri, {}), ("<% $secrets.uri %>", {"uri": uri})):
        code, out = place.run(git(written), secrets=secrets)
        assert code == 1
        assert "repo_uri has an @ behind its host: in a log-in write /, ? and # as %2F" in out
        assert "er2" not in out.replace("%2F", "")
    assert not place.seen.exists(), "git was not called"


def test_a_login_within_a_secret_address_stands_nowhere(place: Place) -> None:
    with web(place, "ann:hunt@er2") as host:
        code, out = place.run(git("<% $secrets.uri %>"), secrets={"uri": f"http://ann:hunt@er2@{host}/a%20b.git"})
    assert code == 0, out
    assert f"git plug-in: cloned http://{host}/a%20b.git (commit" in out
    assert not place.login_kept("hunt@er2")


def test_a_login_that_is_refused_asks_nobody_and_is_not_shown(place: Place) -> None:
    with web(place, "ann:right") as host:
        code, out = place.run(git(f"http://ann:hunter2@{host}/a%20b.git"), GIT_ASKPASS="/bin/false", DISPLAY=":0")
        none, asked = place.run(git(f"http://{host}/a%20b.git"))
    assert (code, none) == (1, 1)
    assert f"git plug-in: http://{host}/a%20b.git is not cloned" in out
    assert "hunter2" not in out
    assert "terminal prompts disabled" in asked


def test_a_login_goes_to_its_own_server_alone(bash: Place) -> None:
    with web(bash, "ann:hunter2") as host, web(bash, "ann:hunter2") as other:
        source = bash.folder / "source"
        bash.git("-C", source, "-c", "protocol.file.allow=always", "submodule", "-q", "add", bash.uri, "part")
        settings = (source / ".gitmodules").read_text().replace(bash.uri, f"http://{other}/a%20b.git")
        (source / ".gitmodules").write_text(settings)
        bash.git("-C", source, "commit", "-q", "-a", "-m", "part")
        bash.git("-C", source, "push", "-q", bash.bare, "main")
        bash.git("-C", bash.bare, "update-server-info")
        uri = f"http://ann:hunter2@{host}/a%20b.git"
        code, out = bash.run(git(uri, options=["--recurse-submodules"]), PATH=f"{bash.bin}:{os.environ['PATH']}")
    assert code == 1
    assert f"could not read Username for 'http://{other}'" in out


def test_what_it_uses_is_gone_before_the_commands(bash: Place) -> None:
    after = {"plugin": "cmd", "parameters": {"preCommands": ["env | grep -i git_ || type berth_git || echo gone"]}}
    with web(bash, "ann:hunter2") as host:
        code, out = bash.run(git(f"http://ann:hunter2@{host}/a%20b.git"), after)
    assert code == 0
    assert out.splitlines()[-2:] == ["gone", "then"]


def test_several_repositories_are_cloned_in_their_order(bash: Place) -> None:
    code, out = bash.run(git(bash.uri, clone_dir="a"), git("file:///nowhere", "ignore"), git(bash.uri, clone_dir="b/c"))
    assert code == 0
    told = [line.rpartition(" in ")[2] for line in out.splitlines() if line.startswith("git plug-in: cloned")]
    assert told == ["a", "b/c"]


def test_a_stop_ends_a_clone_and_leaves_nothing(place: Place) -> None:
    with web(place, "") as host:
        process = place.start(git(f"http://{host}/never.git"))
        wait_until(place.hangs.is_set, "the clone")
        os.killpg(process.pid, signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 143
    assert "git plug-in" not in out
    assert not list(place.work.iterdir())


def test_a_stop_waits_until_git_has_tidied_up(place: Place) -> None:
    for tool in ("sleep", "touch"):
        (place.bin / tool).symlink_to(str(shutil.which(tool)))
    (place.bin / "git").write_text(TIDIES)
    process = place.start(git(place.uri))
    wait_until((place.work / "ready").exists, "the clone")
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(timeout=30) == 143
    assert (place.work / "tidy").exists()
    process.communicate()


def test_a_folder_below_a_variable_that_is_not_there_is_none(bash: Place) -> None:
    code, out = bash.run(git(bash.uri, clone_dir="${NOT_THERE}/code"))
    assert code != 0
    assert "NOT_THERE" in out
    assert "then" not in out
