# SPDX-License-Identifier: Apache-2.0
"""No coroutine has one of the forms that g++ 12 compiles to code that crashes."""
import re
import sys

import guard

BRACES = 'a braced list in an expression with co_await is destroyed twice; name the value first'
QUESTION = 'a ?: in an expression with co_await is destroyed twice; write an if'
CONDITION = 'co_await in a condition goes on at the wrong place; declare the value: if (bool const more = co_await ...)'
CAPTURES = 'a lambda with captures is a coroutine, and its captures die before it; write a function with parameters'

# Comments, preprocessor lines and literals: nothing in them counts.
SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|^[ \t]*#(?:\\\n|[^\n])*|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'',
                     re.S | re.M)
TOKEN = re.compile(r'\w+|->|::|&&|\|\||[=!<>]=|\S')
CLOSING = {'(': ')', '[': ']', '{': '}'}
TYPES = ('struct', 'class', 'union', 'enum', 'namespace', 'extern')
SAME_FUNCTION = ('else', 'do', 'try', 'catch', 'case', 'default')


class Token(str):
    line = 0


class Bracket(list):
    """What stands between a bracket and its partner: tokens and brackets."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind


def is_bracket(item, kind):
    return isinstance(item, Bracket) and item.kind == kind


def read(text):
    blank = SKIPPED.sub(lambda found: ('0' if found[0][0] in '"\'R' else '') + '\n' * found[0].count('\n'), text)
    stack = [Bracket('{')]
    for number, line in enumerate(blank.split('\n'), 1):
        for word in TOKEN.findall(line):
            if word in CLOSING:
                inner = Bracket(word)
                stack[-1].append(inner)
                stack.append(inner)
            elif word in CLOSING.values():
                if len(stack) > 1 and CLOSING[stack[-1].kind] == word:
                    stack.pop()
            else:
                token = Token(word)
                token.line = number
                stack[-1].append(token)
    return stack[0]


def introducer(head):
    """The [...] of the lambda whose signature ends head, or None."""
    for place in reversed(range(len(head))):
        if is_bracket(head[place], '[') and not (head[place] and is_bracket(head[place][0], '[')):   # [[attribute]]
            before = head[place - 1] if place else '='
            indexes = is_bracket(before, '(') or is_bracket(before, '[') or (
                re.match(r'\w', str(before)) and before not in ('return', 'co_return', 'co_yield'))
            return None if indexes else head[place]
        if head[place] in ('=', ','):
            return None
    return None


def is_body(head, in_block):
    """Whether braces after head hold statements; else they are a list of values."""
    if not head:
        return in_block
    last = head[-1]
    if introducer(head) is not None or isinstance(last, Bracket):
        return not (is_bracket(last, '[') and introducer(head) is None)
    if last in (':', 'else', 'do', 'try', 'noexcept', 'const', 'mutable', 'override', 'final'):
        return True
    if any(item in TYPES and (not place or head[place - 1] not in ('<', ',')) for place, item in enumerate(head)):
        return True
    arrows = [place for place, item in enumerate(head) if item == '->']
    return bool(arrows) and (is_bracket(head[arrows[-1] - 1], '(') or head[arrows[-1] - 1] in ('noexcept', 'const'))


class Reader:
    def __init__(self, text):
        self.findings = set()
        self.statements(read(text), captures=False)

    def statements(self, items, captures):
        head = []
        for item in items:
            keyword = next((word for word in reversed(head) if word != 'constexpr'), None)
            if item == ';':
                self.expression(head, captures)
                head = []
            elif is_bracket(item, '(') and keyword in ('if', 'while', 'switch', 'for'):
                self.condition(keyword, item, captures)
                head = []
            elif is_bracket(item, '{') and is_body(head, in_block=True) and introducer(head) is None:
                same = not head or head[0] in SAME_FUNCTION
                self.expression(head, captures)
                self.statements(item, captures and same)
                head = []
            else:
                head.append(item)
        self.expression(head, captures)

    def condition(self, keyword, items, captures):
        parts = [[]]
        for item in items:
            if item == ';':
                parts.append([])
            else:
                parts[-1].append(item)
        for part in parts:
            self.expression(part, captures)
        tested = parts[1] if keyword == 'for' and len(parts) > 1 else [] if keyword == 'for' else parts[-1]
        awaits = [token for token in self.tokens(tested, captures) if token == 'co_await']
        declares = len(tested) > 3 and 'co_await' in tested and tested.index('co_await') > 2 and \
            tested[tested.index('co_await') - 1] == '='
        if awaits and not declares:
            self.findings.add((awaits[0].line, CONDITION))

    def expression(self, items, captures):
        tokens = list(self.tokens(items, captures))
        for token in tokens:
            if token in ('co_await', 'co_return', 'co_yield') and captures:
                self.findings.add((token.line, CAPTURES))
        awaits = next((token for token in tokens if token == 'co_await'), None)
        if awaits:
            if '{' in tokens:
                self.findings.add((awaits.line, BRACES))
            if '?' in tokens:
                self.findings.add((awaits.line, QUESTION))

    def tokens(self, items, captures):
        """Those of one expression, with a brace for each list; the bodies of its lambdas are read on their own."""
        head = []
        for item in items:
            if is_bracket(item, '{') and is_body(head, in_block=False):
                lambda_captures = introducer(head)
                self.statements(item, captures=bool(lambda_captures))
            elif isinstance(item, Bracket):
                if item.kind == '{':
                    yield '{'
                yield from self.tokens(item, captures)
            else:
                yield item
            head = [] if item == ',' else [*head, item]


def check(root):
    for path in guard.files(root, 'include', 'tests', 'examples', 'benchmarks', endings=['.hpp', '.cpp']):
        text = (root / path).read_text(encoding='utf-8', errors='replace')
        if 'co_' in text:
            for number, finding in sorted(Reader(text).findings):
                yield f'{path}:{number}: {finding}'


SOUND = '''
struct Failed { std::string text; int rank{}; };
template <class T> class Box final : public Base<T> {
 public:
  explicit Box(int size) : size_{size}, names_{"a", "b"} {}
  [[nodiscard("co_await it")]] auto get() const -> asio::awaitable<int> {
    // co_await send(Failed{"x"}) and c ? co_await a() : b in a comment
    Failed message{"co_await f({1})", 3};
    auto const larger = size_ > 3 ? 4 : 5;
    co_await send(std::move(message));
    if (larger > 3) co_await stop();
    while (auto const next = co_await receive()) use(*next, Failed{"x", 1});
    if (int const size = co_await read(); size > 0) { co_return size; }
    for (int left = co_await count(); left > 0; --left) { run([this] { return size_ ? Failed{"y", 2} : Failed{}; }); }
    int table[3]{1, 2, 3};
    auto const sum = co_await add(table[0], [](int a, int b) { return a > b ? a : b; });
    auto spawned = []() -> asio::awaitable<void> { co_await stop(); };
    switch (sum) { case 1: { co_await stop(); } }
    do { co_await stop(); } while (sum ? true : false);
    try { co_await stop(); } catch (Error const&) { co_return 1; }
    co_return co_await last();
  }
};
'''


def coroutine(body):
    return {'include/raytrain/exec/bad.hpp': f'auto f() -> asio::awaitable<void> {{\n{body}\n}}\n'}


GOOD = {'include/raytrain/exec/sound.hpp': SOUND}
DEFECTS = {
    'an aggregate temporary': coroutine('co_await send(Failed{"text", 3});'),
    'a braced list': coroutine('co_await send({"a", "b"});'),
    'braces beside an awaited argument': coroutine('auto const x = merge(Failed{"text", 3}, co_await receive());'),
    'braces around what is awaited': coroutine('std::string const text{co_await read()};'),
    'braces in a lambda without captures': coroutine('g([]() -> asio::awaitable<void> { co_await send(Failed{"x"}); });'),
    'braces in a loop': coroutine('for (auto const& part : co_await split(Parts{"a"})) use(part);'),
    'a choice between awaiting and not': coroutine('auto const x = ready ? co_await receive() : Failed{};'),
    'a choice of what to await': coroutine('co_await send(ready ? a : b);'),
    'a condition': coroutine('if (co_await receive()) ++count;'),
    'a negated condition': coroutine('while (true) { if (!co_await receive()) break; }'),
    'the condition of while': coroutine('while (co_await receive()) ++count;'),
    'the condition of do': coroutine('do ++count; while (co_await receive());'),
    'the condition of for': coroutine('for (int i = 0; co_await more(i); ++i) ++count;'),
    'a comparison in a condition': coroutine('if (count == co_await receive()) ++count;'),
    'what a switch looks at': coroutine('switch (co_await receive()) { case 1: ++count; }'),
    'a lambda with captures': {'tests/exec/bad_test.cpp': 'void f(int& n) {\n  g([&n]() -> asio::awaitable<void> {\n'
                                                          '    if (n) co_await stop();\n  });\n}\n'},
    'a lambda that captures everything': {'examples/bad.cpp': 'auto const f = [=] { co_return 1; };\n'},
}

if __name__ == '__main__':
    sys.exit(guard.main(check, GOOD, DEFECTS))
