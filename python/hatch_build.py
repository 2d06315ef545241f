"""Puts a static krarup into the wheel as its script: KRARUP_TREE is the unpacked archive that `make static-archive` made. Nothing is compiled, so that
the program which pip installs is the one which was tested. Static, it runs with glibc and with musl alike, and its wheel says so."""

import os
import pathlib
import platform

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class StaticProgram(BuildHookInterface):
    """Adds the program and its bill of materials."""

    def initialize(self, version, build_data):
        tree = os.environ.get("KRARUP_TREE")
        if not tree:
            raise SystemExit("error: KRARUP_TREE is not set\n  hint: build the wheel with: make wheel")
        tree = pathlib.Path(tree)
        machine = platform.machine()
        build_data["pure_python"] = False
        # The oldest of both kinds that pip knows: the program itself needs neither C library.
        build_data["tag"] = f"py3-none-manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"
        build_data["shared_scripts"][str(tree / "krarup")] = "krarup"
        build_data["sbom_files"].append(str(tree / "krarup.cdx.json"))
