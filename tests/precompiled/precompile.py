# SPDX-License-Identifier: Apache-2.0
"""Precompiles a header for g++ with the options of a program whose files begin with it: g++ takes it only where the options are the
same.

  precompile.py HEADER PROGRAM OUTPUT MADE DEPFILE OPTION...

MADE is a header without content, which is new when OUTPUT is.

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
        if word in ('-MQ', '-MF', '-o', '-c', '-include'):  # the last one names the headers that are made here
            next(words)
        elif word != '-MD':
            options.append(word)
    return options


def main(header, program, output, made, depfile, *_):
    commands = json.loads(pathlib.Path('compile_commands.json').read_text())
    command = [*options_of(program, commands), '-x', 'c++-header', '-MD', '-MQ', output, '-MF', depfile, '-o', output, '-c', header]
    status = subprocess.run(command, check=False).returncode
    if status == 0:
        pathlib.Path(made).write_text('')
    return status


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
