# SPDX-License-Identifier: Apache-2.0
"""What includes a precompiled header is compiled again when that one is: ninja knows it of every object that has been compiled.

  recompiled.py NINJA BUILD
"""
import re
import subprocess
import sys


def main(ninja, build):
    def ask(*question):
        return subprocess.run([ninja, '-C', build, '-t', *question], capture_output=True, text=True, check=True).stdout

    compiled = {}  # what each object was made of
    for block in ask('deps').split('\n\n'):
        target, _, read = block.partition(': #deps ')
        compiled[target] = read
    objects = [target for target in compiled if re.match(r'tests/.*\.o$', target)]
    users = 0
    for block in ask('query', *objects).split('\ntests/'):
        target = 'tests/' + block.split(':')[0].removeprefix('tests/')
        for name in re.findall(r'\|\| tests/(\w+_pch)\.hpp\.gch', block):
            users += 1
            if f'tests/{name}_made.hpp' not in compiled[target]:
                print(f'{target}: ninja does not know that it includes tests/{name}.hpp.gch')
                return 1
    if users == 0:
        print('no object that was compiled includes a precompiled header')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
