# SPDX-License-Identifier: Apache-2.0
"""./examples/run NAME --help tells all options of an example without fetching or building anything, and the list cuts no sentence."""
import pathlib
import re
import subprocess
import sys
import tempfile

import guard


CHOICES = re.compile(r'add_option\(\s*"(--[a-z-]+)"[^;]*?IsMember\(\{"([^}]*)"\}')


def said(clone, *arguments):
    done = subprocess.run(['bash', clone / 'examples/run', *arguments], text=True, stdin=subprocess.DEVNULL, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return f'exit status {done.returncode}\n' * (done.returncode != 0) + done.stdout


def check(root):
    sources = {path.stem: (root / path).read_text() for path in guard.files(root, 'examples', endings=['.cpp']) if len(path.parts) == 2}
    options = {str(path): (root / path).read_text() for path in guard.files(root, 'examples', endings=['.cpp', '.hpp'])
               if path.stem == 'options'}
    with tempfile.TemporaryDirectory() as folder:
        clone = pathlib.Path(folder)
        guard.plant(clone, {name: (root / name).read_text() for name in ('setup', 'examples/run')})
        guard.plant(clone, {f'examples/{name}.cpp': text for name, text in sources.items()})
        guard.plant(clone, options)
        listed = said(clone)
        for line in listed.splitlines():
            if re.match(r'  \w', line) and not line.endswith('.'):
                yield f'the list cuts a sentence: {line}'
        for name, text in sources.items():
            printed = said(clone, name, '--help')
            text += options.get(f'examples/{name}/options.cpp', '')
            one_process = 'is_first_of_job' not in text and 'raytrain/collective/mpi' not in text
            for option in [*([] if one_process else ['--ranks']), '-j', *re.findall(r'add_(?:option|flag)\(\s*"(--[a-z-]+)"', text)]:
                if not re.search(rf'^  {option} .*\w', printed, re.M):
                    yield f'{name} --help does not tell {option}: {printed}'
            for option, choices in CHOICES.findall(text):
                if not re.search(rf'^  {option} .*{re.sub("[^a-z0-9_]+", ", ", choices.strip())}: ', printed, re.M):
                    yield f'{name} --help does not tell that {option} is one of {choices}: {printed}'
            if name not in listed or 'build/' in printed.partition('Options')[2]:
                yield f'{name} --help: {printed}'
            if one_process and ('--ranks' in printed or 'is one process' not in (refused := said(clone, name, '--ranks', '2'))):
                yield f'{name} is one process, and takes --ranks: {printed}'
            if '"--ranks"' not in text and not one_process and 'one number' not in (refused := said(clone, name, '--ranks', '2:4')):
                yield f'{name} --ranks 2:4: {refused}'
        if (clone / 'build').exists():
            yield f'--help has left {[path.name for path in (clone / "build").iterdir()]}'
        # A program that is there already, and says how it was started.
        for name in sources:
            guard.plant(clone, {f'build/examples/{name}': '#!/bin/sh\necho "started with $*"\n'})
        guard.plant(clone, {'setup': f'{(root / "setup").read_text()}\n{READY}'})
        for data in (['--data', 'own.csv'], ['--data=own.csv'], ['--seed', '1']):
            if 'breast_cancer' in sources and (started := said(clone, 'breast_cancer', *data)).count('--data') != 1:
                yield f'breast_cancer {data}: {started}'


READY = 'prepare() { :; }\nbuild_targets() { :; }\nfetch_breast_cancer() { :; }\n'
RUN = (guard.ROOT / 'examples/run').read_text()
EXAMPLE = '''// Trains. It goes
// on.
struct Options {
  int epochs = 1;
};
auto main() -> int { is_first_of_job(); app.add_option("--epochs", options.epochs, "how "
                                    "many"); }
'''
GOOD = {'setup': (guard.ROOT / 'setup').read_text(), 'examples/run': RUN, 'examples/a.cpp': EXAMPLE}
DEFECTS = {
    'a list of first lines': {'examples/run': RUN.replace("tr '\\n' ' ' | sed -E 's/\\. [A-Z].*/./'", 'head -n 1')},
    'help that is prepared': {'examples/run': RUN.replace('help_of "$name"; exit', 'mkdir "$root/build"; help_of "$name"; exit')},
    'an option that it does not find': {'examples/a.cpp': EXAMPLE.replace('options.epochs, ', 'epochs, ')},
    'an option in a file of its own': {'examples/a/options.cpp': 'app.add_option("--rate", rate, "how fast");'},
    'choices that it does not find': {'examples/a.cpp': EXAMPLE.replace('"many")', '"many")   ->check(CLI::IsMember({"one", "two"}))')},
    'ranks of a program that is one process': {'examples/run': RUN.replace('is_one_process "$1" ||', ''), 'examples/b.cpp': '// Says it. Ends.\n'},
    'no ranks': {'examples/run': RUN.replace("'--ranks N' 'as", "'--rank N' 'as")},
}

if __name__ == '__main__':
    sys.exit(guard.main(check, GOOD, DEFECTS))
