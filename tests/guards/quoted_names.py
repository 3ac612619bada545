# SPDX-License-Identifier: Apache-2.0
"""Every name in backticks in CONTRIBUTING.md is one of the tree: `A::b` is a member of the class, enumeration, concept or
namespace A, or of a class from which A derives, and any other name is a word of the code, of the scripts or of the build.
README.md and the comments of the headers are held to the same in names with `::`.

A span is looked at if it is one name, with or without arguments behind it, and no name of LIBRARIES or of a program in PROGRAMS. Comments and texts of C++
are no code: a name that is left in them alone is gone. Nor are the guards, which plant such names.
"""
import re
import sys

import guard

LIBRARIES = ['std', 'torch', 'at', 'c10', 'asio', 'arrow']
PROGRAMS = ['clangd', 'gdb', 'perf', 'strace', 'valgrind']
CODE = ['.hpp', '.cpp', '.cu']
SCRIPTS = ['.py', '.cmake.in', '.env', '.sbatch', 'CMakeLists.txt', 'meson.build', 'meson_options.txt', 'pack', 'run', 'setup']

COMMENT = re.compile(r'//[^\n]*')
NO_CODE = re.compile(COMMENT.pattern + r'|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.S)
FENCE = re.compile(r'^```.*?^```$', re.M | re.S)
SPAN = re.compile(r'`([^`]+)`')
NAME = re.compile(r'((?:\w+::)*[A-Za-z_]\w*)(?:[({<\[].*)?', re.S)
QUALIFIED = re.compile(r'(?=\b(\w+::\w+))')
SCOPE = re.compile(r'\b(?:class|struct|union|enum|namespace)\s+(?:class\s+|\[\[.*?\]\]\s*|alignas\([^)]*\)\s*)*([\w:]+)(?:<[^;{}]*>)?(?:\s+final)?\s*(:[^;{}]*)?\{')
ALIAS = re.compile(r'\busing\s+(\w+)\s*=([^;]*);')
CONCEPT = re.compile(r'\bconcept\s+(\w+)\s*=')


def until(end, text, begin):
    """The text from there to the next `end` that is in no braces."""
    depth = 0
    for mark in re.compile('[{};]').finditer(text, begin):
        if depth == 0 and mark[0] == end:
            return text[begin:mark.start()]
        depth += {'{': 1, '}': -1, ';': 0}[mark[0]]
    return text[begin:]


class Names:
    """The words of the tree, and of each scope those in its braces."""

    def __init__(self, root):
        self.words, self.qualified, self.members, self.bases = set(), set(), {}, {}
        for path in guard.files(root, endings=CODE + SCRIPTS):
            if path.parts[:2] == ('tests', 'guards'):
                continue
            text = '\n'.join(guard.lines(root, path))
            if path.suffix in CODE:
                text = NO_CODE.sub(' ', text)
                for scope in SCOPE.finditer(text):
                    self.add(scope[1].split('::')[-1], until('}', text, scope.end()), scope[2] or '')
                for alias in ALIAS.finditer(text):
                    self.add(alias[1], '', alias[2])
                for concept in CONCEPT.finditer(text):
                    self.add(concept[1], until(';', text, concept.end()), '')
            self.words.update(re.findall(r'\w+', text))
            self.qualified.update(QUALIFIED.findall(text))

    def add(self, scope, text, bases):
        self.members.setdefault(scope, set()).update(re.findall(r'\w+', text))
        self.bases.setdefault(scope, set()).update(re.findall(r'\w+', bases))

    def has(self, name):
        *scopes, last = name.split('::')
        if not scopes:
            return last in self.words
        return f'{scopes[-1]}::{last}' in self.qualified or self.is_member(scopes[-1], last, set())

    def is_member(self, scope, name, seen):
        if scope in seen:
            return False
        seen.add(scope)
        return name in self.members.get(scope, ()) or any(self.is_member(base, name, seen) for base in self.bases.get(scope, ()))


def quoted(text):
    """What stands in backticks and is one name, with its line."""
    for span in SPAN.finditer(text):
        name = NAME.fullmatch(span[1])
        if name and name[1].split('::')[0] not in LIBRARIES + PROGRAMS:
            yield text.count('\n', 0, span.start()) + 1, span[1], name[1]


def check(root):
    names = Names(root)
    for document in ['CONTRIBUTING.md', 'README.md']:
        text = FENCE.sub(lambda block: '\n' * block[0].count('\n'), '\n'.join(guard.lines(root, document)))
        for line, span, name in quoted(text):
            if (document == 'CONTRIBUTING.md' or '::' in name) and not names.has(name):
                yield f'{document}:{line}: the tree has no `{span}`; a library or program belongs into LIBRARIES or PROGRAMS of this guard'
    for path in guard.files(root, 'include', endings=CODE):
        for number, line in enumerate(guard.lines(root, path), 1):
            for comment in COMMENT.findall(line):
                for _, span, name in quoted(comment):
                    if '::' in name and not names.has(name):
                        yield f'{path}:{number}: the tree has no `{span}`'


GOOD = {
    'CONTRIBUTING.md': '`Shop::sell(Fruit const&)`, `Shop::open`, `Fruit::pear`, `Sells::price`, `trade::count`, `Shop`, `weigh()`, `ripe`, '
                       '`std::sort`, `gdb`, `./shop --open`, `a/path.hpp`, `Store::open`, `Till::add`\n```cpp\nnothing `Shop::gone`\n```\n',
    'README.md': '`Shop::open`, `of_Python`, `trade::all`\n',
    'meson.build': "ripe = 1  # raytrain's CMake target: trade::all\n",
    'include/raytrain/shop.hpp':
        'namespace trade {\nenum class Fruit { apple, pear };\nclass House {\n public:\n  void open() { if (closed) {} }\n};\n'
        '/// As `House::open`.\nclass Shop final : public House {\n  void sell(Fruit fruit);  // no longer: `weigh_all`\n};\n'
        'template <class T>\nconcept Sells = requires(T t) {\n  { t.price() } -> std::same_as<int>;\n};\n'
        'struct [[nodiscard]] alignas(8) Till { int add(); };\nusing Store = Shop;\ninline int count() { return 1; }\ninline void weigh() { print("rotten"); }\n}\n',
}
DEFECTS = {
    'a member that another class has': {'CONTRIBUTING.md': '`Fruit::sell`\n'},
    'a member of no class': {'CONTRIBUTING.md': '`Shop::gone()`\n'},
    'a member in a span of two lines': {'CONTRIBUTING.md': '`Shop::gone(Fruit\nconst&)`\n'},
    'a class that is gone': {'CONTRIBUTING.md': '`Market`\n'},
    'a class that is gone, with its member': {'CONTRIBUTING.md': '`Market::open`\n'},
    'a function that is gone': {'CONTRIBUTING.md': '`weigh_twice()`\n'},
    'a function that is in a comment only': {'CONTRIBUTING.md': '`weigh_all`\n'},
    'a function that is in a text only': {'CONTRIBUTING.md': '`rotten`\n'},
    'a value that an enumeration has not': {'CONTRIBUTING.md': '`Fruit::plum`\n'},
    'a requirement that a concept has not': {'CONTRIBUTING.md': '`Sells::count`\n'},
    'a function that a guard alone names': {'CONTRIBUTING.md': '`planted()`\n', 'tests/guards/a.py': "'planted'\n"},
    'a member of no class in README': {'README.md': '`Shop::gone`\n'},
    'a member of no class in a comment of a header': {'include/raytrain/a.hpp': 'int a;  ///< Of `Shop::gone`.\n'},
}

if __name__ == '__main__':
    sys.exit(guard.main(check, GOOD, DEFECTS))
