"""Machine code that Numba keeps on disk: forgotten where its source has changed."""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path


def forget_stale(source: Path, *used: Path) -> None:
    """Delete what Numba keeps of a module, unless it was made from the module, and those that it uses, as they are now.

    Numba itself looks whether a source has changed only after it has read the types in its index: where one of them
    was renamed meanwhile, that ends in an AttributeError.
    """
    kept = source.parent / "__pycache__"
    stamp = kept / f"{source.stem}.sha256"
    digest = sha256(b"".join(path.read_bytes() for path in (source, *used))).hexdigest()
    with suppress(OSError):  # a folder that cannot be written holds no code of ours
        if stamp.is_file() and stamp.read_text(encoding="ascii") == digest:
            return
        for old in (*kept.glob(f"{source.stem}.*.nbi"), *kept.glob(f"{source.stem}.*.nbc")):
            old.unlink(missing_ok=True)
        kept.mkdir(exist_ok=True)
        stamp.write_text(digest, encoding="ascii")
