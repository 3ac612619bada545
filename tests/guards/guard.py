# SPDX-License-Identifier: Apache-2.0
"""What the guards share: the files of the tree, and how a guard shows that it can fail."""
import itertools
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def files(root, *folders, endings=()):
    """The files of the project, new ones included and what git ignores left out; relative to root."""
    listed = subprocess.run(['git', '-C', str(root), 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                            capture_output=True, text=True, check=False)
    if listed.returncode == 0 and (root / '.git').exists():
        paths = [pathlib.PurePosixPath(name) for name in listed.stdout.split('\0') if name]
    else:
        paths = [pathlib.PurePosixPath(path.relative_to(root)) for path in root.rglob('*')]
        paths = [path for path in paths if path.parts[0] not in ('build', '.git')]
    return sorted({path for path in paths if (not folders or path.parts[0] in folders)
                   and (not endings or path.name.endswith(tuple(endings))) and (root / path).is_file()})


def lines(root, path):
    return (root / path).read_text(encoding='utf-8', errors='replace').splitlines()


def plant(root, contents):
    for name, text in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith('#!') else 0o644)


def main(check, good, defects, arguments=None):
    """Runs check(root), a generator of findings, over the tree, or with --self-test over planted trees.

    good     files of a tree without a finding
    defects  what is wrong -> files that are added to it; each must give a finding
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ['--self-test']:
        return self_test(check, good, defects)
    findings = list(check(ROOT))
    for finding in findings:
        print(finding)
    return 1 if findings else 0


def self_test(check, good, defects):
    wrong = []
    for name, planted in {'nothing': {}, **defects}.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            plant(root, good)
            plant(root, planted)
            # One shows that a defect is found: what would be looked at after it is looked at where nothing is planted.
            findings = list(itertools.islice(check(root), 1 if planted else None))
        if bool(findings) != bool(planted):
            wrong.append(f'planted: {name}; found: {findings}')
        elif planted:
            print(f'{name}: {findings[0]}')
    for line in wrong:
        print('FAILED', line)
    return 1 if wrong else 0
