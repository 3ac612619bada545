# SPDX-License-Identifier: Apache-2.0
"""Compiles one case of tests/compile_fail/: the control must compile, and with RAYTRAIN_EXPECT_ERROR it must not,
with an error that every `// expect-error: REGEX` line of the case finds.

  compile_fail.py CASE.cpp -- c++ FLAG... [--torch FLAG...]
"""
import pathlib
import re
import sys

import compiler
import guard

SKIPPED = 77
WITHOUT_LIBTORCH = 'skipped: needs LibTorch'


def problem(tool, case):
    """What is wrong with a case, or nothing; WITHOUT_LIBTORCH where it needs one that is missing."""
    text = case.read_text()
    expected = re.findall(r'^// expect-error: (.+)$', text, re.M)
    if not expected:
        return 'has no line "// expect-error: REGEX"'
    flags = tool.flags_for('torch' if 'raytrain/backend/torch' in text else 'core')
    if flags is None:
        return WITHOUT_LIBTORCH
    # The errors are those of declarations, which the compiler reads faster alone.
    flags = [*flags, '-DRAYTRAIN_COMPILED', '-I', str(guard.ROOT / 'include')]
    status, said = tool.compile(flags, case)
    if status != 0:
        return f'the control does not compile:\n{said}'
    status, said = tool.compile([*flags, '-DRAYTRAIN_EXPECT_ERROR'], case)
    if status == 0:
        return 'compiles, though it must not'
    missing = [regex for regex in expected if not re.search(regex, said)]
    if missing:
        return f'fails, but not with "{missing[0]}":\n{said}'
    errors = len(re.findall(r'\berror:', said))
    print(f'{errors} error{"s" if errors != 1 else ""} in {len(said.splitlines())} lines')
    return None


def checker(tool):
    def check(root):
        for path in guard.files(root, 'tests', endings=['.cpp']):
            wrong = problem(tool, root / path)
            if wrong:
                yield f'{path}: {wrong}'
    return check


CONTROL = '// expect-error: cannot convert|cannot initialize\nint* p = nullptr;\n#ifdef RAYTRAIN_EXPECT_ERROR\n'
GOOD = {'tests/a.cpp': CONTROL + 'int* q = 1.5;\n#endif\n'}
DEFECTS = {
    'a case that compiles': {'tests/a.cpp': CONTROL + '#endif\n'},
    'another error than the expected one': {'tests/a.cpp': CONTROL + 'int* q = unknown;\n#endif\n'},
    'a control that does not compile': {'tests/a.cpp': CONTROL + '#endif\nint* r = 2.5;\n'},
    'no expectation': {'tests/a.cpp': 'int* p = nullptr;\n'},
}

if __name__ == '__main__':
    own, compiler_given = compiler.split_arguments(sys.argv[1:])
    if own == ['--self-test']:
        sys.exit(guard.main(checker(compiler_given), GOOD, DEFECTS, own))
    verdict = problem(compiler_given, pathlib.Path(own[0]))
    if verdict == WITHOUT_LIBTORCH:
        print(verdict)
        sys.exit(SKIPPED)
    if verdict:
        print(f'{own[0]}: {verdict}')
    sys.exit(1 if verdict else 0)
