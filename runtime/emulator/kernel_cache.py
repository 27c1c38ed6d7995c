"""Compiled files by content hash: atomic, safe for several processes, and never trusted blindly.

Every entry is one file whose last 32 bytes are the SHA-256 of the rest; a shared object may carry
such a trailer. A truncated or damaged entry is thus noticed before it is loaded, and built again.
"""

import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

from ascendfx.runtime.emulator.toolchain import cache_not_writable

_DIGEST_BYTES = 32
_SCRATCH, _OWNER = "build-", ".owner"
_OLD = 86_400.0
"""Seconds after which a scratch folder without a lock belongs to nobody."""
_YOUNG = 60.0
"""Seconds in which a folder may have a lock file that is not locked yet."""


def default_cache_dir() -> Path:
    """Return ``$XDG_CACHE_HOME/ascendfx`` or ``~/.cache/ascendfx``.

    Raises:
        GraphError: There is no home directory.
    """
    if base := os.environ.get("XDG_CACHE_HOME", ""):
        return Path(base) / "ascendfx"
    try:
        return Path.home() / ".cache" / "ascendfx"
    except RuntimeError as error:
        raise cache_not_writable(Path("~/.cache"), "there is no home directory") from error


def content_key(*parts: str | bytes) -> str:
    """Return a hash of ``parts`` that no other sequence of parts has."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:32]


def is_intact(entry: Path) -> bool:
    """Whether ``entry`` exists and its trailer fits its content."""
    try:
        data = entry.read_bytes()
    except OSError:
        return False
    content, trailer = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    return len(trailer) == _DIGEST_BYTES and hashlib.sha256(content).digest() == trailer


def publish(built: Path, entry: Path) -> None:
    """Seal ``built`` with its trailer and rename it to ``entry``; the last writer wins.

    Raises:
        GraphError: The folder cannot be written.
    """
    try:
        with built.open("ab") as file:
            file.write(hashlib.sha256(built.read_bytes()).digest())
        built.replace(entry)
    except OSError as error:
        raise cache_not_writable(entry.parent, error.strerror or str(error)) from error


@contextlib.contextmanager
def scratch_directory(parent: Path) -> Generator[Path]:
    """Yield a new folder under ``parent`` and remove it afterwards.

    Raises:
        GraphError: ``parent`` cannot be written.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        directory = tempfile.TemporaryDirectory(
            prefix=_SCRATCH, dir=parent, ignore_cleanup_errors=True
        )
    except OSError as error:
        raise cache_not_writable(parent, error.strerror or str(error)) from error
    with directory as name, _held(Path(name) / _OWNER):
        yield Path(name)


@contextlib.contextmanager
def _held(lock: Path) -> Generator[None]:
    """Hold a lock by which others see that a folder is in use; the system drops it with us."""
    try:
        file = lock.open("a")
    except OSError as error:
        raise cache_not_writable(lock.parent, error.strerror or str(error)) from error
    with file:
        with contextlib.suppress(OSError):  # a file system without locks: age has to do
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


@functools.cache
def remove_left_behind(root: Path) -> None:
    """Remove scratch folders of processes that were killed; once per process and cache.

    One that a living process holds stays, as one without a lock that is not old.
    """
    for folder in (*root.glob(f"{_SCRATCH}*"), *root.glob(f"*/{_SCRATCH}*")):
        with contextlib.suppress(OSError):
            if folder.is_dir() and not folder.is_symlink() and _is_left_behind(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left_behind(folder: Path) -> bool:
    age = time.time() - folder.stat().st_mtime
    if not (folder / _OWNER).is_file():
        return age > _OLD
    with (folder / _OWNER).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            held = error.errno in (errno.EWOULDBLOCK, errno.EACCES)
            return not held and age > _OLD
    return age > _YOUNG


@contextlib.contextmanager
def exclusive(lock: Path) -> Generator[None]:
    """Let one process at a time into the block, so that a long build is not done twice.

    Raises:
        GraphError: The folder of ``lock`` cannot be written.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("a")
    except OSError as error:
        raise cache_not_writable(lock.parent, error.strerror or str(error)) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
