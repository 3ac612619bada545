# SPDX-License-Identifier: Apache-2.0
"""Compiles a header for g++ to begin with in the files of a program, with that program's options: others it would not take.

  precompile.py HEADER PROGRAM OUTPUT DEPFILE OPTION...

Run in the build's folder, whose compile_commands.json has the options; PROGRAM and OUTPUT as they are seen from there. The OPTIONs
are not looked at: where one is another, ninja runs the command anew.
"""
import json
import pathlib
import shlex
import subprocess
import sys


def options_of(program, commands):
    """The compiler and its options for the first file of a program, without the file's own."""
    words = iter(shlex.split(next(entry['command'] for entry in commands if entry['output'].startswith(f'{program}.p/'))))
    options = []
    for word in words:
        if word in ('-MQ', '-MF', '-o', '-c', '-include'):
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
