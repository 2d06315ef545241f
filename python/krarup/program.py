"""The program: where it is, and how it is asked."""

import os
import pathlib
import shutil
import subprocess
import sysconfig


class KrarupError(Exception):
    """What the program, or this package, could not do: ``what``, what to do about it (``hint``), and the program's exit ``code``."""

    def __init__(self, what, hint="", code=None):
        super().__init__(f"{what}\n  hint: {hint}" if hint else what)
        self.what, self.hint, self.code = what, hint, code


def program():
    """The path of the program: ``$KRARUP``, else the one installed with this package, else the first on the ``PATH``.

    Raises KrarupError where there is none.
    """
    named = os.environ.get("KRARUP")
    if named:
        return named
    schemes = {sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")}
    for folder in (sysconfig.get_path("scripts", scheme) for scheme in sorted(schemes)):
        path = pathlib.Path(folder) / "krarup"
        if path.exists():
            return str(path)
    found = shutil.which("krarup")
    if found is None:
        raise KrarupError("the program krarup is not installed", "install the wheel, which has it, or set KRARUP to its path")
    return found


def call(*words, show=False):
    """Runs ``krarup`` with these words and gives what it printed to stdout.

    With ``show`` its messages (stderr) go to this process's own, as progress of an experiment should. Raises KrarupError with the program's own
    words and hint where its exit code is not 0.
    """
    path = program()
    try:
        process = subprocess.Popen([path, *map(str, words)], stdout=subprocess.PIPE, stderr=None if show else subprocess.PIPE, encoding="utf-8")
    except OSError as error:
        raise KrarupError(f"{path} cannot be run: {error.strerror}", "set KRARUP to the path of a krarup, or unset it") from error
    try:
        said, errors = process.communicate()
    except BaseException:
        # An experiment ends what it has started before it ends itself; killed it could not.
        process.terminate()
        process.communicate()
        raise
    if process.returncode != 0:
        lines = (errors or "").splitlines()
        what = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), f"krarup {words[0]} failed")
        hint = next((line.strip().removeprefix("hint: ") for line in lines if line.strip().startswith("hint: ")), "")
        raise KrarupError(what, hint, process.returncode)
    return said
