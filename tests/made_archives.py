"""Archives for tests."""

import io
import tarfile


def tar_of(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    """Returns a tar archive of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()
