# SPDX-License-Identifier: Apache-2.0
"""What includes a precompiled header is compiled again when that one is: ninja knows that a program's objects read what is made with it.

  recompiled.py NINJA BUILD PROGRAM
"""
import pathlib
import subprocess
import sys


def main(ninja, build, program):
    program = pathlib.Path(program).resolve().relative_to(pathlib.Path(build).resolve())
    objects = [str(path.relative_to(build)) for path in pathlib.Path(build, f'{program}.p').glob('*.o')]
    read = subprocess.run([ninja, '-n', '-C', build, '-t', 'deps', *objects], capture_output=True, text=True, check=True).stdout
    compiled, users = read.count(': #deps '), read.count('_pch_made.hpp')
    if compiled == 0 or users != compiled:
        print(f'{program} has {compiled} objects that ninja has compiled, and it knows of {users} that they include a precompiled header')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
