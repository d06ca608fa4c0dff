"""An image with git on busybox, and in it a repository `/srv/a.git` of one commit, which anybody may clone."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.images import images
from tests.support.services.docker_engine import DockerEngine

GIT = "berth-test/git:1"
WHO = ("-c", "user.name=a", "-c", "user.email=a@example.org")


def git_image(engine: DockerEngine) -> str:
    """The image's name, once the Engine has it."""
    images.BUILDS[GIT] = build_git
    return engine.ensure_image(GIT)


def build_git(root: Path) -> None:
    images.build_busybox(root)
    git = Path(shutil.which("git") or "/usr/bin/git")
    images.place(root, git)
    for name in ("git-upload-pack", "git-receive-pack"):
        (root / "usr/bin" / name).symlink_to("git")
    images.place_libraries(root, [git])
    (root / "etc/gitconfig").write_text("[safe]\n\tdirectory = *\n")
    with tempfile.TemporaryDirectory(prefix="berth-git-") as folder:
        source = Path(folder)
        (source / "train.sh").write_text("echo trained\n")
        for words in (("init", "-q"), ("add", "."), (*WHO, "commit", "-q", "-m", "first")):
            subprocess.run([git, *words], cwd=source, check=True)
        subprocess.run([git, "clone", "-q", "--bare", source, root / "srv/a.git"], check=True)
