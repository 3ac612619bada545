# SPDX-License-Identifier: Apache-2.0
"""A package that comes after build/ was configured is found by the next command: meson itself would go on saying that its header
is not there. What set-up has fetched into build/, and the options that a person has set, are still there then."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import guard

# A project that needs nothing, and says whether a header is there.
PROJECT = '''project('late', 'cpp')
message('late.h: ' + meson.get_compiler('cpp').has_header('late.h').to_string())
'''
# What a first command configures, and a second one with another package.
TWICE = '''. "$1/setup"
configure && cat "$root/build/setup.log" || exit
dpkg-query() { echo "ii  late 1.0"; }
echo >"$2/late.h"
meson configure "$root/build" -Dwarning_level=3 && echo "fetched before" >"$root/build/datasets" || exit
configure && cat "$root/build/setup.log" "$root/build/datasets" && meson introspect --buildoptions "$root/build" | grep -o '"warning_level", "value": "."'
'''


def check(root):
    with tempfile.TemporaryDirectory() as folder:
        clone, headers = pathlib.Path(folder) / 'clone', pathlib.Path(folder) / 'headers'
        headers.mkdir()
        guard.plant(clone, {'setup': (root / 'setup').read_text(), 'meson.build': PROJECT})
        done = subprocess.run(['bash', '-c', TWICE, '-', clone, headers], text=True, stdin=subprocess.DEVNULL, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, 'CPLUS_INCLUDE_PATH': str(headers)})
    if done.returncode != 0 or re.findall('late.h: (true|false)', done.stdout) != ['false', 'true']:
        yield f'the header is not found: exit status {done.returncode}: {done.stdout}'
    elif 'fetched before' not in done.stdout:
        yield f'what was fetched into build/ is gone: {done.stdout}'
    elif '"warning_level", "value": "3"' not in done.stdout:
        yield f'an option is lost: {done.stdout}'


SCRIPT = (guard.ROOT / 'setup').read_text()
FORGETS = ': >"$build/meson-private/coredata.dat"'
GOOD = {'setup': SCRIPT}
DEFECTS = {
    'a set-up that goes on with what meson found before': {'setup': SCRIPT.replace(FORGETS, 'true')},
    'a set-up that starts anew': {'setup': SCRIPT.replace(FORGETS, 'rm -r "$build"; meson setup "$build" "$root"')},
}

if __name__ == '__main__':
    sys.exit(guard.main(check, GOOD, DEFECTS))
