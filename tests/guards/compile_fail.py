# SPDX-License-Identifier: Apache-2.0
"""Compiles a case of tests/compile_fail/: the control must compile, and with RAYTRAIN_EXPECT_ERROR it must not,
with an error that every `// expect-error: REGEX` line of the case finds. Several cases are compiled as one file, each in a
namespace of its own, since headers take far longer than what the cases do.

  compile_fail.py CASE.cpp... -- c++ FLAG... [--torch FLAG...]
"""
import pathlib
import re
import sys
import tempfile

import compiler
import guard

SKIPPED = 77
WITHOUT_LIBTORCH = 'skipped: needs LibTorch'
ERROR = re.compile(r'\berror:')
WHENCE = re.compile(r'In file included from |\S+: (In|At) ')


def problem(tool, *cases):
    """What is wrong with one of the cases, or nothing; WITHOUT_LIBTORCH where they need one that is missing."""
    texts = {case: case.read_text() for case in cases}
    expected = {case: re.findall(r'^// expect-error: (.+)$', text, re.M) for case, text in texts.items()}
    for case in (case for case in cases if not expected[case]):
        return f'{case.name} has no line "// expect-error: REGEX"'
    flags = tool.flags_for('torch' if any('raytrain/backend/torch' in text for text in texts.values()) else 'core')
    if flags is None:
        return WITHOUT_LIBTORCH
    # The errors are those of declarations, which the compiler reads faster alone.
    flags = [*flags, '-DRAYTRAIN_COMPILED', '-DRAYTRAIN_COMPILED_TORCH', '-I', str(guard.ROOT / 'include')]
    with tempfile.TemporaryDirectory() as folder:
        source = cases[0]
        if len(cases) > 1:
            source = pathlib.Path(folder) / 'cases.cpp'
            source.write_text(as_one_file(texts))
        (status, said), (status_of_wrong, said_of_wrong) = compiler.each(
            lambda more: tool.compile([*flags, *more], source), [[], ['-DRAYTRAIN_EXPECT_ERROR']])
    if status != 0:
        return f'the control does not compile:\n{said}'
    if status_of_wrong == 0:
        return 'compiles, though it must not'
    for case in (case for case in cases if f'{case.name}:' not in said_of_wrong):
        return f'{case.name} compiles, though it must not:\n{said_of_wrong}'
    errors = errors_in(said_of_wrong)
    for case, regex in ((case, regex) for case in cases for regex in expected[case]):
        if not any(f'{case.name}:' in error and re.search(regex, error) for error in errors):
            return f'{case.name} fails, but not with "{regex}":\n{said_of_wrong}'
    errors = len(errors)
    print(f'{errors} error{"s" if errors != 1 else ""} in {len(said_of_wrong.splitlines())} lines')
    return None


def errors_in(said):
    """What the compiler says of each error: whence it comes before it, notes behind it."""
    errors = [[]]
    for line in said.splitlines():
        if ERROR.search(line) or WHENCE.match(line):
            if any(ERROR.search(earlier) for earlier in errors[-1]):
                errors.append([])
        errors[-1].append(line)
    return ['\n'.join(lines) for lines in errors if any(ERROR.search(line) for line in lines)]


def as_one_file(texts):
    # What a case includes is read before it, and so not within its namespace.
    headers = dict.fromkeys(line for text in texts.values() for line in re.findall(r'^#include .+$', text, re.M))
    return '\n'.join([*headers, *(f'namespace {case.stem} {{\n#include "{case.resolve()}"\n}}' for case in texts), ''])


def checker(tool):
    def check(root):
        wrong = problem(tool, *(root / path for path in guard.files(root, 'tests', endings=['.cpp'])))
        if wrong:
            yield wrong
    return check


CONTROL = '// expect-error: cannot convert|cannot initialize\nint* p = nullptr;\n#ifdef RAYTRAIN_EXPECT_ERROR\n'
GOOD = {'tests/a.cpp': CONTROL + 'int* q = 1.5;\n#endif\n'}
DEFECTS = {
    'a case that compiles': {'tests/a.cpp': CONTROL + '#endif\n'},
    'another error than the expected one': {'tests/a.cpp': CONTROL + 'int* q = unknown;\n#endif\n'},
    'a control that does not compile': {'tests/a.cpp': CONTROL + '#endif\nint* r = 2.5;\n'},
    'no expectation': {'tests/a.cpp': 'int* p = nullptr;\n'},
    'one of several that compiles': {'tests/b.cpp': CONTROL + '#endif\n'},
    'one of several with the error of another': {'tests/b.cpp': CONTROL + 'int* q = unknown;\n#endif\n'},
    'one of several with a control that does not compile': {'tests/b.cpp': CONTROL + 'int* q = 1.5;\n#endif\nint* r = 2.5;\n'},
}

if __name__ == '__main__':
    own, compiler_given = compiler.split_arguments(sys.argv[1:])
    if own == ['--self-test']:
        sys.exit(guard.main(checker(compiler_given), GOOD, DEFECTS, own))
    verdict = problem(compiler_given, *map(pathlib.Path, own))
    if verdict == WITHOUT_LIBTORCH:
        print(verdict)
        sys.exit(SKIPPED)
    if verdict:
        print(f'{" ".join(own)}: {verdict}')
    sys.exit(1 if verdict else 0)
