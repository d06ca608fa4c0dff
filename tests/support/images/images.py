"""Root file systems for test containers, made of what this machine has, since no image registry is reached.

| image | what is in it |
| --- | --- |
| busybox:latest | Debian's busybox-static, every applet linked |
| berth-test/python:3.11 | the interpreter that runs the tests, bash and the usual commands |
| berth-test/torch:2.13.0 | the same with PyTorch's CPU build from pip |

Archives are kept in `~/.cache/berth-tests` (or `BERTH_TEST_CACHE`). `python -m tests.support.images.images` makes all.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

BUSYBOX = "busybox:latest"
PYTHON = f"berth-test/python:{sys.version_info.major}.{sys.version_info.minor}"
TORCH_VERSION = "2.13.0"
TORCH = f"berth-test/torch:{TORCH_VERSION}"

CHANGES = ["ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "ENV LANG=C.UTF-8"]
COMMANDS = """
    bash sh env ls cat cp mv rm mkdir rmdir ln touch chmod chown stat date sleep seq id whoami hostname uname
    head tail wc grep sed tr sort uniq cut tee dd true false test printf echo yes nproc timeout sha256sum md5sum
    find xargs ps kill df du mktemp readlink realpath basename dirname tar gzip stty base64 setsid
"""
# What is compiled stays: containers of the tests may not keep what they compile, and each would do it anew.
UNWANTED = shutil.ignore_patterns(
    "test", "tests", "idlelib", "turtledemo", "ensurepip", "lib2to3", "*.a", "site-packages"
)


def cache_folder() -> Path:
    folder = Path(os.environ.get("BERTH_TEST_CACHE") or Path.home() / ".cache" / "berth-tests")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def archive(name: str) -> Path:
    """The tar file of an image's root file system, made at its first use. Raises OSError, CalledProcessError."""
    build = BUILDS[name]
    made_of = f"{sys.version} {sys.base_prefix} {Path(__file__).read_text()}"
    key = hashlib.sha256(made_of.encode()).hexdigest()[:12]
    path = cache_folder() / f"{re.sub(r'[^a-z0-9.]+', '-', name)}-{key}.tar"
    if not path.exists():
        with tempfile.TemporaryDirectory(prefix="berth-image-") as temporary:
            root = Path(temporary)
            root.chmod(0o755)
            lay_out(root)
            build(root)
            partial = path.with_suffix(f".{os.getpid()}")
            subprocess.run(["tar", "-C", root, "--owner=0", "--group=0", "-cf", partial, "."], check=True)
            partial.rename(path)
        for older in path.parent.glob(f"{path.stem.removesuffix(key)}*.tar"):
            if older != path:
                older.unlink()
    return path


def lay_out(root: Path) -> None:
    for folder in ("dev", "etc", "proc", "root", "run", "sys", "tmp", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64"):
        (root / folder).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")


def build_busybox(root: Path) -> None:
    busybox = Path(shutil.which("busybox") or "/bin/busybox")
    shutil.copy(busybox, root / "usr/bin/busybox")
    listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    for applet in set(listed) - {"busybox"}:
        (root / "usr/bin" / applet).symlink_to("busybox")


def build_python(root: Path) -> None:
    """The running interpreter at its own path, so that it finds its library, and `python3` on the PATH."""
    found = [Path(path).resolve() for name in COMMANDS.split() if (path := shutil.which(name))]
    for name in COMMANDS.split():
        if path := shutil.which(name):
            target = root / "usr/bin" / name
            shutil.copy(Path(path).resolve(), target)
    interpreter = base_interpreter()
    library = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
    inside = Path(f"{root}{library}")
    shutil.copytree(library, inside, ignore=UNWANTED, dirs_exist_ok=True)
    place(root, interpreter)
    for name in ("python", "python3", interpreter.name):
        link = root / "usr/local/bin" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(interpreter)
    place_libraries(root, [interpreter, *found, *library.glob("lib-dynload/*.so")])


def build_torch(root: Path) -> None:
    """PyTorch as pip finds it, beside the interpreter; its headers and tests stay out."""
    build_python(root)
    packages = torch_packages()
    target = root / "usr/local/lib/torch-packages"
    shutil.copytree(packages, target, ignore=shutil.ignore_patterns("include", "*.a"))
    torchrun = root / "usr/local/bin/torchrun"
    torchrun.write_text("#!/usr/local/bin/python3\nfrom torch.distributed.run import main\n\nmain()\n")
    torchrun.chmod(0o755)
    site = Path(f"{root}{site_packages()}")
    site.mkdir(parents=True, exist_ok=True)
    (site / "torch.pth").write_text("/usr/local/lib/torch-packages\n")
    place_libraries(root, list(target.glob("**/*.so*")))


def base_interpreter() -> Path:
    """The one that the virtual environment was made of."""
    return Path(sys.base_prefix, "bin", f"python{sysconfig.get_python_version()}").resolve()


def site_packages() -> str:
    """Where it looks for packages: Debian's looks in a folder of another name."""
    asked = [str(base_interpreter()), "-c", "import site; print(site.getsitepackages()[0])"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def torch_packages() -> Path:
    """A folder with PyTorch and what it needs, kept in the cache."""
    target = cache_folder() / f"torch-{TORCH_VERSION}-{sysconfig.get_config_var('SOABI')}"
    if not target.exists():
        partial = target.with_suffix(f".{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(partial)]
        subprocess.run([*pip, f"torch=={TORCH_VERSION}", "numpy"], check=True)
        partial.rename(target)
    return target


def place(root: Path, path: Path) -> None:
    """Copy a file to the same absolute path below `root`."""
    target = Path(f"{root}{path}")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def place_libraries(root: Path, binaries: Iterable[Path]) -> None:
    """The machine's shared libraries that these need, found by ldd, at the paths where the loader looks for them."""
    for library in sorted({found for binary in binaries for found in shared_libraries(binary)}):
        if not library.is_relative_to(root):
            place(root, library)


def shared_libraries(binary: Path) -> list[Path]:
    listed = subprocess.run(["ldd", binary], check=False, capture_output=True, text=True).stdout
    return [path for word in re.findall(r"(/\S+) \(0x", listed) if (path := Path(word)).exists()]


BUILDS: dict[str, Callable[[Path], None]] = {
    BUSYBOX: build_busybox,
    PYTHON: build_python,
    TORCH: build_torch,
}


if __name__ == "__main__":
    for image in BUILDS:
        print(f"{image}: {archive(image)}", flush=True)
