# SPDX-License-Identifier: Apache-2.0
"""Precompiles a header for g++ with the options of a program whose files begin with it: g++ takes it only where the options are the
same.

  precompile.py HEADER PROGRAM OUTPUT DEPFILE OPTION...

Run in the build folder, whose compile_commands.json has the options; PROGRAM and OUTPUT are relative to it. It does not read the
OPTIONs: they are there so that ninja runs the command again when one of them changes.
"""
import json
import pathlib
import shlex
import subprocess
import sys


def options_of(program, commands):
    """The compiler and its options for the first file of a program, without the file's own."""
    command = next((entry['command'] for entry in commands if entry['output'].startswith(f'{program}.p/')), None)
    if command is None:
        sys.exit(f'precompile.py: {program} has no file in compile_commands.json')
    words = iter(shlex.split(command))
    options = []
    for word in words:
        if word in ('-MQ', '-MF', '-o', '-c', '-include'):  # the last one names the header that is made here
            next(words)
        elif word != '-MD':
            options.append(word)
    return options


def main(header, program, output, depfile, *_):
    commands = json.loads(pathlib.Path('compile_commands.json').read_text())
    command = [*options_of(program, commands), '-x', 'c++-header', '-MD', '-MQ', output, '-MF', depfile, '-o', output, '-c', header]
    return subprocess.run(command, check=False).returncode


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
