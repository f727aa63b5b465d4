"""How much disk an installation takes, ours and peers', each in a fresh environment, without pip itself.

    python benchmarks/install_size.py --output result.json
    python benchmarks/install_size.py --only base,ctranslate2

Sizes are of what pip installs with its bytecode, in 10^6 bytes. torch is the pinned CPU build.
"""

import argparse
import datetime
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[1]
_CONSTRAINTS = _REPOSITORY / "constraints.txt"
_OWN = {"pip", "setuptools", "_distutils_hack", "distutils-precedence.pth"}  # what an empty environment has


def _torch() -> str:
    lines = _CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("torch=="))


def systems() -> dict[str, list[list[str]]]:
    """Returns the names of the installations, and the arguments of pip install that make each."""
    pinned = ["-c", str(_CONSTRAINTS)]
    return {
        "base": [[*pinned, str(_REPOSITORY)]],
        "serve": [[*pinned, f"{_REPOSITORY}[serve]"]],
        "train": [[_torch()], [*pinned, f"{_REPOSITORY}[train]"]],
        "ctranslate2": [[*pinned, "ctranslate2"]],
        "torch": [[_torch(), *pinned, "numpy"]],
        "libretranslate": [["libretranslate==1.9.6"]],
        "transformers": [[_torch()], [*pinned, "transformers", "sentencepiece"]],
    }


def measure(installs: list[list[str]]) -> dict[str, int]:
    """Installs into a fresh environment, and returns its size in bytes and the number of its packages."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = Path(folder) / "bin" / "python"
        for arguments in installs:
            command = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *arguments]
            subprocess.run(command, check=True)
        packages = Path(folder, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
        kept = [each for each in packages.iterdir() if each.name.partition("-")[0] not in _OWN]
        files = [file for each in kept for file in ([each] if each.is_file() else each.rglob("*")) if file.is_file()]
        num_packages = sum(each.suffix == ".dist-info" for each in kept)
        return {"bytes": sum(file.stat().st_size for file in files), "packages": num_packages}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(systems()), metavar="NAME,NAME")
    parser.add_argument("--output", type=Path, help="also write the result here, as JSON")
    args = parser.parse_args()
    rows = {}
    for name in args.only:
        rows[name] = found = measure(systems()[name])
        print(f"{name:<14} {found['bytes'] / 1e6:>7,.0f} MB  {found['packages']:>3} packages", flush=True)
    if args.output is not None:
        date, machine = datetime.date.today().isoformat(), {"python": platform.python_version()}
        result = {"date": date, "what": __doc__.splitlines()[0], "machine": machine, "installations": rows}
        args.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
