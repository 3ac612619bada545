# SPDX-License-Identifier: Apache-2.0
"""Says how much CPU time the compiler takes to read the header that every program includes."""
import json
import pathlib
import re
import resource
import shlex
import tempfile

from building import BUILD, ROOT
from counts import say
from processes import run

PARSE_GOALS_S = {'with the library': 2.0, 'of headers alone': 4.0}  # of CPU time, which other work on the machine changes little


def cpu_time_s():
    """Of all commands that have ended, and of what they have started."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def say_parse_time():
    """Says it of <raytrain/trainer.hpp>, with the library and of headers alone: for a person, nothing depends on it."""
    commands = json.loads((BUILD / 'compile_commands.json').read_text())
    command = next((entry for entry in commands if '-DASIO_STANDALONE' in entry['command']), None)
    if command is None or not (ROOT / 'include/raytrain/trainer.hpp').exists():
        return
    words = [word for word in shlex.split(command['command']) if re.match(r'-(std|D|I|isystem|pthread)', word)]
    compiler = next(word for word in shlex.split(command['command']) if not word.endswith('ccache'))
    words = [word for word in words if word != '-DRAYTRAIN_COMPILED']
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / 'parse.cpp'
        source.write_text('#include <raytrain/trainer.hpp>\n')
        for how, goal in PARSE_GOALS_S.items():
            also = ['-DRAYTRAIN_COMPILED'] if how == 'with the library' else []
            before_s = cpu_time_s()
            status, _ = run([compiler, *words, *also, '-fsyntax-only', source], cwd=command['directory'])
            if status == 0:
                say(f'Parsing <raytrain/trainer.hpp> {how} takes {cpu_time_s() - before_s:.2f} s of CPU time (goal: {goal} s).')
