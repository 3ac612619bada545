# SPDX-License-Identifier: Apache-2.0
"""Every command in README.md and CONTRIBUTING.md does what the text says: those of ```sh blocks are run, one after the
other, in a folder that looks like a clone, unless COVERED names what runs them. What they name in /tmp lies in a folder of
the test, so that who follows the documents after it does not find their runs finished.

Commands inside the text, `./tests/run --all`, are held to the same.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import guard

DOCUMENTS = ['README.md', 'CONTRIBUTING.md']
BLOCK = re.compile(r'^```(?:sh|bash|console)\n(.*?)^```$', re.M | re.S)
INLINE = re.compile(r'(?<!`)`((?:\./|\.ci/)[^`\n]*)`(?!`)')

# A regex of whole commands -> what runs them, so that they are not run here.
COVERED = {
    r'\./tests/run( --all| --long| --coverage| --minutes \d+| --cell \'[a-z ]+\'| mpi| slurm)*': 'this test is part of it, or what it chooses is',
    r'\./tests/gpu_kit/(pack|run).*': 'tests/gpu_kit/gpu_kit_test.py, and machines with a GPU',
    r'\./tests/fresh_machine \w+': './tests/run --long',
    r'(bash )?\.?/?\.ci/run': 'runs this test',
    r'\./(tests|examples|benchmarks)/run .*\b[A-Z]{3,}\b(?!\.).*': 'a placeholder; the commands with a name are run',
    r'\./examples/run serve.*': 'tests/examples/serve.py, which also ends it',
    r'\./benchmarks/run (--quick )?\w+( --quick)?': 'the benchmark cell of ./tests/run --all',
    r'(git clone|cd) .*': 'how this clone came about',
    r'sudo .*|apt-get .*': 'tests/guards/setup_script.py',
    r'meson (setup|install|test|compile) .*': 'tests/consumer and tests/run',
    r'ninja( -C build)?': 'tests/run',
}
SECONDS = 600


def commands(text):
    """The commands of a document with their lines: those of blocks, in order, then those inside the text."""
    for block in BLOCK.finditer(text):
        line = text.count('\n', 0, block.start()) + 1
        for command in re.sub(r'\\\n\s*', '', block[1]).splitlines():
            command = re.sub(r'(^|\s+)# .*$', '', command.removeprefix('$ ')).strip()
            line += 1
            if command:
                yield line, command
    for inline in INLINE.finditer(BLOCK.sub(lambda block: '\n' * block[0].count('\n'), text)):
        yield text.count('\n', 0, inline.start()) + 1, inline[1].strip()


def covered(command):
    return all(any(re.fullmatch(pattern, part.strip()) for pattern in COVERED) for part in re.split(r'&&|;', command))


def check(root):
    with tempfile.TemporaryDirectory() as folder:
        clone = pathlib.Path(folder) / 'raytrain'
        clone.mkdir()
        for entry in root.iterdir():
            if entry.name not in ('.git', 'runs'):
                (clone / entry.name).symlink_to(entry)
        done = set()
        for path in [path for path in DOCUMENTS if (root / path).exists()]:
            for line, command in commands((root / path).read_text()):
                script = re.match(r'(\./|\.ci/)\S+', command)
                if script and not os.access(root / script[0], os.X_OK):
                    yield f'{path}:{line}: {command}: there is no program {script[0]}'
                    continue
                if covered(command) or command in done:
                    continue
                done.add(command)
                yield from run(clone, f'{path}:{line}', command)


def run(clone, where, command):
    try:
        result = subprocess.run(['bash', '-ec', command.replace('/tmp/', f'{clone.parent}/')], cwd=clone, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        yield f'{where}: {command}: has not ended after {SECONDS} s'
        return
    print(f'{where}: {command}: exit status {result.returncode}', flush=True)
    if result.returncode != 0:
        yield f'{where}: {command}: exit status {result.returncode}\n{result.stdout}'


GOOD = {'README.md': '```sh\ntouch here  # a comment\ntest -e here\n./tests/run\n```\n`./tests/run --all`\n',
        'tests/run': '#!/bin/sh\n'}
DEFECTS = {
    'a command that fails': {'README.md': '```sh\ntest -e nowhere\n```\n'},
    'a command that is not there': {'README.md': '```sh\n./tests/walk\n```\n'},
    'a command inside the text that is not there': {'CONTRIBUTING.md': 'Run `./tests/walk fast` now.\n'},
}

if __name__ == '__main__':
    sys.exit(guard.main(check, GOOD, DEFECTS))
