# SPDX-License-Identifier: Apache-2.0
"""Every include of a header of ours, or of the standard library, brings a name that the file uses; and a header of ours includes
what it names of the standard library, itself or by the header whose definitions it has. A type of ours that a header names is declared
there, or in what it includes, without its definitions, which a program may leave to the library.

By text: a name that is written for another reason hides an include that is not needed, and none is reported that is."""
import re
import sys

import guard

# Header of the standard library -> what a file has that uses it. Those that are not named here are not looked at.
STANDARD = {
    'algorithm': r'\b(ranges::\w+|(min|max|copy|copy_n|move|fill|fill_n|sort|find|find_if|all_of|any_of|none_of|equal|count|count_if|clamp|'
                 r'swap_ranges|reverse|rotate|unique|lower_bound|upper_bound|transform|for_each|generate|minmax|partition|remove_if|stable_sort|'
                 r'nth_element|is_sorted|binary_search|shuffle|lexicographical_compare|search|mismatch|max_element|min_element)\s*[(<{])',
    'any': r'\bany(_cast)?\b',
    'array': r'\b(array|to_array)\b',
    'atomic': r'\b(atomic|memory_order)\w*',
    'barrier': r'\bbarrier\b',
    'bit': r'\b(bit_cast|bit_ceil|bit_width|popcount|countr_zero|countl_zero|countr_one|countl_one|rot[lr]|bit_floor|has_single_bit|endian|byteswap)\b',
    'cassert': r'\bassert\b',
    'cerrno': r'\b(errno|E[A-Z]{2,}\d?)\b',
    'charconv': r'\b(from_chars|to_chars)\b',
    'chrono': r'\b(chrono|\d+(ms|us|ns|s|h|min))\b',
    'climits': r'\b(\w+_(MAX|MIN)|PIPE_BUF)\b',
    'cmath': r'\b(sqrt|pow|exp|log\w*|abs|fabs|ldexp|frexp|isnan|isfinite|isinf|floor|ceil|round|lround|llround|sin|cos|tanh|fma|nextafter|'
             r'signbit|hypot|trunc|fmod|copysign|rint|modf|cbrt|expm1)\b',
    'compare': r'<=>|\b\w+_ordering\b',
    'concepts': r'\b(concept|std::(same_as|integral|floating_point|convertible_to|derived_from|invocable|regular|copyable|movable|'
                r'default_initializable|unsigned_integral|signed_integral|constructible_from|move_constructible|copy_constructible|'
                r'equality_comparable|totally_ordered|destructible|swappable|common_reference_with|assignable_from|predicate|semiregular))\b',
    'condition_variable': r'\bcondition_variable\w*',
    'csignal': r'\b(SIG[A-Z0-9]+|signal|raise|sigaction|sig_atomic_t|sig\w+)\b',
    'cstddef': r'\b(size_t|byte|ptrdiff_t|nullptr_t|max_align_t|offsetof)\b',
    'cstdint': r'\b(u?int(8|16|32|64|ptr|max)_t|u?int_(fast|least)\d+_t|U?INT\w*_MAX|SIZE_MAX)\b',
    'cstdio': r'\b(f?printf|snprintf|std(out|err|in)|FILE|fopen|fclose|fflush|perror|puts|fputs|EOF|rename|remove|fwrite|fread|getc|fdopen|'
              r'setvbuf|pclose|popen|vsnprintf)\b',
    'cstdlib': r'\b(getenv|exit|quick_exit|abort|free|malloc|calloc|realloc|strto\w+|EXIT_\w+|atexit|at_quick_exit|aligned_alloc|setenv|unsetenv|'
               r'system|_Exit|mkdtemp|mkstemp|secure_getenv|atoi|posix_memalign|rand|div)\b',
    'cstring': r'\b(mem(cpy|move|set|cmp|chr)|str(len|cmp|ncmp|error|chr|rchr|str|cpy|ncpy|error_r|signal|nlen))\b',
    'ctime': r'\b(time_t|tm|gmtime\w*|localtime\w*|strftime|clock\w*|timespec|time|mktime|timegm)\b',
    'deque': r'\bdeque\b',
    'exception': r'\b(exception\w*|current_exception|rethrow_exception|make_exception_ptr|terminate|uncaught_exceptions|set_terminate|'
                 r'nested_exception|throw_with_nested)\b',
    'filesystem': r'\bfilesystem\b',
    'fmt/core.h': r'\bfmt::(format|format_string|print|string_view)\b',
    'fmt/format.h': r'\b(fmt::|FMT_)',
    'fmt/ranges.h': r'\bfmt::join\b',
    'fstream': r'\b((if|of|f)stream|ios)\b',
    'functional': r'\b(function|hash|less|greater|plus|minus|multiplies|invoke|bind|ref|cref|reference_wrapper|equal_to|identity|not_fn|'
                  r'bind_front|bit_\w+|logical_\w+|move_only_function)\b',
    'future': r'\b(future|promise|packaged_task|async|future_status|shared_future|future_err\w+)\b',
    'initializer_list': r'\binitializer_list\b',
    'iomanip': r'\b(setw|setprecision|setfill|quoted|put_time|get_time|setbase)\b',
    'iostream': r'\b(cout|cerr|cin|clog|ios)\b',
    'iterator': r'\branges::(begin|end|data|size|empty)\b|\b(\w*_iterator\w*|iterator\w*|back_inserter|inserter|distance|next|prev|advance|ssize|sentinel\w*|default_sentinel\w*|data|size|'
                r'begin|end|iter_\w+|indirect\w*|make_move_iterator|istreambuf_iterator|input_iterator_tag)\b',
    'latch': r'\blatch\b',
    'limits': r'\bnumeric_limits\b',
    'list': r'\blist\b',
    'map': r'\b(multi)?map\b',
    'memory': r'\b((unique|shared|weak)_ptr|make_(unique|shared)\w*|allocator\w*|addressof|align|assume_aligned|enable_shared_from_this|destroy\w*|'
              r'construct_at|uninitialized_\w+|to_address|\w*_pointer_cast|owner_less|default_delete|pointer_traits|out_ptr)\b',
    'mutex': r'\b(mutex|lock_guard|unique_lock|scoped_lock|once_flag|call_once|recursive_mutex|timed_mutex|try_to_lock\w*|adopt_lock|defer_lock)\b',
    'new': r'\b(bad_alloc|align_val_t|launder|nothrow\w*|hardware_\w+|new|operator delete|bad_array_new_length)\b',
    'numeric': r'\b(accumulate|iota|reduce|inner_product|partial_sum|gcd|lcm|midpoint|exclusive_scan|inclusive_scan|transform_reduce|adjacent_difference)\b',
    'optional': r'\b(optional|nullopt\w*|make_optional|bad_optional_access)\b',
    'random': r'\b(random_device|mt19937\w*|\w+_distribution|seed_seq|\w+_engine|minstd_rand\w*)\b',
    'ranges': r'\b(views|ranges)::',
    'set': r'\b(multi)?set\b',
    'span': r'\b(span|as_bytes|as_writable_bytes|dynamic_extent)\b',
    'sstream': r'\b\w*stringstream\b',
    'stdexcept': r'\b(runtime_error|logic_error|invalid_argument|out_of_range|length_error|domain_error|overflow_error|range_error|underflow_error)\b',
    'stop_token': r'\bstop_(token|source|callback|requested|possible)\b|\bnostopstate\b',
    'string': r'\b(string|to_string|stoi|stol|stoul|stoull|stoll|stod|stof|getline|char_traits|u8string)\b',
    'string_view': r'\bstring_view\b|"sv\b',
    'system_error': r'\b(error_code|system_error|errc|error_category|\w+_category|error_condition)\b',
    'thread': r'\b(j?thread|this_thread)\b',
    'tuple': r'\b(tuple\w*|tie|apply|make_tuple|forward_as_tuple|make_from_tuple|ignore)\b',
    'type_traits': r'\b(is_\w+(_v)?|(?!(size|u?int\w*|ptrdiff|nullptr|max_align|align_val|default_sentinel|time)_t\b)\w+_t|conditional\w*|enable_if\w*|integral_constant|true_type|false_type|decay\w*|type_identity\w*|'
                   r'invoke_result\w*|underlying_type\w*|remove_\w+|common_type\w*|make_(un)?signed\w*|extent\w*|rank_v|void_t|alignment_of\w*)\b',
    'typeinfo': r'\b(typeid|type_info|bad_cast)\b',
    'unordered_map': r'\bunordered_(multi)?map\b',
    'unordered_set': r'\bunordered_(multi)?set\b',
    'utility': r'\b(move|forward|pair|swap|exchange|make_pair|as_const|declval|in_place\w*|integer_sequence|(make_)?index_sequence\w*|'
               r'(cmp_(less|greater|equal|not_equal|less_equal|greater_equal))|piecewise_construct|in_range|to_underlying|unreachable|get)\b',
    'variant': r'\b(variant\w*|visit|holds_alternative|get_if|monostate|bad_variant_access|get)\b',
    'vector': r'\bvector\b',
}

# What a header declares, as far as others may name it.
DECLARES = re.compile(
    r'\b(?:class|struct|enum class|enum|concept|using|union|namespace)\s+(?:\[\[\w+\]\]\s*)?(?:RAYTRAIN_\w+\s+)?(\w+)'
    r'|(\w+)\s*\((?!\*)'
    r'|(\w+)\s*(?:=|\{|;|\[)'
    r'|,\s*(\w+)\)\s*\{'  # as TEST_CASE_TEMPLATE_DEFINE has it
    r'|#\s*define\s+(\w+)')
INCLUDE = re.compile(r'^#\s*include\s*<([^>]+)>', re.M)
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.S)
TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"')
KEYWORDS = {'if', 'for', 'while', 'switch', 'return', 'catch', 'sizeof', 'static_assert', 'noexcept', 'requires', 'decltype', 'default', 'delete',
            'std', 'auto', 'const', 'constexpr', 'int', 'void', 'bool', 'char', 'raytrain', 'detail', 'T', 'alignas', 'value', 'name', 'size', 'explicit'}


PATTERNS = {header: re.compile(pattern) for header, pattern in STANDARD.items()}


def needed_by(code):
    """What the code names of the standard library and fmt, and the headers that have it, of which one will do."""
    for name in re.finditer(r'\b(?:std|fmt)::(?=(\w+(?:::\w+)*))', code):
        headers = {header for header, pattern in PATTERNS.items()
                   if pattern.match(code, name.end()) or pattern.match(code, name.start())}
        if headers:
            yield name[0] + name[1], headers


def code_of(text):
    """Without comments and includes, and with empty texts."""
    return TEXT.sub('""', COMMENT.sub('', INCLUDE.sub('', text)))


def check(root):
    paths = guard.files(root, 'include', 'tests', 'examples', 'benchmarks', endings=['.hpp', '.cpp', '.cu'])
    texts = {str(path): (root / path).read_text(errors='replace') for path in paths}
    declared = {}

    def names_of(header):
        """What including a header brings: its names, and, of one that has none of its own, those of what it includes."""
        if header in declared:
            return declared[header]
        declared[header] = set()
        text = texts.get('include/' + header)
        if text is None:
            return declared[header]
        names = {name for found in DECLARES.findall(code_of(text)) for name in found if name} - KEYWORDS
        inline = header.replace('.hpp', '-inl.hpp')
        others = [other for other in INCLUDE.findall(text) if other != inline]
        if not names:
            for other in others:
                names |= names_of(other)
        declared[header] = names
        return names

    for path in paths:
        file = str(path)
        if '/impl/' in file or 'compile_fail/' in file or file == 'include/raytrain/raytrain.hpp':
            continue
        text = texts[file]
        code = code_of(text)
        words = set(re.findall(r'\w+', code))
        if not words - {'pragma', 'once', 'ifndef', 'endif', 'RAYTRAIN_COMPILED', 'RAYTRAIN_COMPILED_TORCH', 'namespace', 'raytrain'}:
            continue  # it only gathers others
        own = file.removeprefix('include/').replace('-inl.hpp', '.hpp')
        headers = INCLUDE.findall(text)
        if file.startswith('include/'):
            at_hand = {*headers, *INCLUDE.findall(texts.get('include/' + own, ''))}
            for name, one_of in sorted({name: have for name, have in needed_by(code) if not have & at_hand}.items()):
                yield f'{file}: uses {name} and does not include <{"> or <".join(sorted(one_of))}>'
        gathers = re.fullmatch(r'include/raytrain/(backend/)?\w+\.hpp', file)
        if file.startswith('tests/') and headers and headers[0].startswith('raytrain/'):
            headers.pop(0)  # what is tested comes first, to show that it compiles alone
        if 'fmt/ranges.h' not in headers and re.search(STANDARD['fmt/ranges.h'], code):
            yield f'{file}: uses fmt::join, which newer versions of fmt have in <fmt/ranges.h> only'
        for header in headers:
            if header in STANDARD and not re.search(STANDARD[header], code):
                yield f'{file}: uses nothing of <{header}>'
            if not header.startswith('raytrain/') or header.endswith('-inl.hpp') or header == own or gathers:
                continue
            if names_of(header) and not names_of(header) & words:
                yield f'{file}: uses nothing of <{header}>'
    yield from unreachable(root)
    yield from slow(root)


# A type of a namespace, which is not indented, and one that a header declares itself, wherever.
TYPE = re.compile(r'^(?:template\s*<[^;{]*?>\s+)?(?:struct|class|enum class|union|using|concept)\s+(?:\[\[\w+\]\]\s+)?([A-Z]\w+)(?!\w*\s*;)', re.M)
OWN_TYPE = re.compile(r'\b(?:struct|class|typename|using|concept)\b(?:\s*\.\.\.)?\s+([A-Z]\w+)')
USED_TYPE = re.compile(r'(?<![\w.>:])(?:raytrain::|detail::)*([A-Z]\w+)\b')


def unreachable(root):
    """A finding for each type of ours that a header names, and that neither it nor what it includes declares."""
    texts = {str(path).removeprefix('include/'): (root / path).read_text(errors='replace') for path in guard.files(root, 'include', endings=['.hpp'])
             if not path.name.endswith('-inl.hpp') and '/impl/' not in str(path)}
    codes = {header: code_of(text) for header, text in texts.items()}
    places = {}
    for header, code in codes.items():
        for name in TYPE.findall(code):
            places.setdefault(name, set()).add(header)
    for header, code in codes.items():
        reached, left = set(), [header]
        while left:
            one = left.pop()
            if one not in reached:
                reached.add(one)
                left += [other for other in INCLUDE.findall(texts.get(one, '')) if not other.endswith('-inl.hpp')]
        for name in sorted(set(USED_TYPE.findall(code)) - set(OWN_TYPE.findall(code))):
            if name in places and not places[name] & reached:
                yield f'include/{header}: names {name}, and includes nothing that reaches <{"> or <".join(sorted(places[name]))}>'


# Headers that take a tenth of a second or more, which each file of a user's program that has <raytrain/trainer.hpp> would pay.
SLOW = re.compile(r'ranges|cmath|random|regex|[io]*stream|[fs]+tream|fmt/(?!core\.h).*|asio.*')


def slow(root):
    """A finding for each slow header that <raytrain/trainer.hpp> reaches by declarations."""
    reached, left = set(), ['raytrain/trainer.hpp']
    while left:
        one = left.pop()
        path = root / 'include' / one
        if one in reached or not path.exists():
            continue
        reached.add(one)
        for other in INCLUDE.findall(path.read_text(errors='replace')):
            if SLOW.fullmatch(other):
                yield f'include/{one}: includes <{other}>, and <raytrain/trainer.hpp> includes it: let a -inl.hpp include that'
            elif not other.endswith('-inl.hpp'):
                left.append(other)


HEADER = '#pragma once\nnamespace raytrain {\nstruct Rank { int value; };\nauto first() -> Rank;\n}\n'
GOOD = {
    'include/raytrain/core/identifiers.hpp': HEADER,
    'include/raytrain/core/identifiers-inl.hpp': '#include <raytrain/core/identifiers.hpp>\nauto raytrain::first() -> Rank { return {}; }\n',
    'include/raytrain/core/all.hpp': '#pragma once\n#include <raytrain/core/identifiers.hpp>\n',
    'include/raytrain/core/forward.hpp': '#pragma once\nnamespace raytrain {\nstruct Rank;  // no Ranks\nauto last() -> Rank*;\n}\n',
    'include/raytrain/core/world.hpp': '#include <vector>\n#include <raytrain/core/all.hpp>\nstruct World { std::vector<raytrain::Rank> ranks; };\n',
}
DEFECTS = {
    'a header of the standard library for nothing': {'include/raytrain/core/a.hpp': '#include <map>\nstruct A {};  // no map\n'},
    'a header of ours for nothing': {'include/raytrain/core/a.hpp': '#include <raytrain/core/identifiers.hpp>\nstruct A {};\n'},
    'a header that only newer versions of fmt need is missing': {
        'include/raytrain/core/a.hpp': '#include <fmt/format.h>\nauto a = fmt::join("", "");\n'},
    'a name that another header brings by chance': {'include/raytrain/core/a.hpp': '#include <vector>\nstd::vector<std::string> a;\n'},
    'a type of ours whose header is not reached': {'include/raytrain/core/a.hpp': 'auto next() -> Rank;\n'},
    'one that only the definitions include': {
        'include/raytrain/core/a.hpp': 'auto next() -> raytrain::Rank;\n#include <raytrain/core/a-inl.hpp>\n',
        'include/raytrain/core/a-inl.hpp': '#include <raytrain/core/identifiers.hpp>\nauto next() -> raytrain::Rank { return raytrain::first(); }\n'},
    'a slow header in each program': {
        'include/raytrain/trainer.hpp': '#include <raytrain/core/world.hpp>\nstruct Trainer { World world; };\n',
        'include/raytrain/core/world.hpp': '#include <ranges>\nstruct World { std::ranges::range auto const* ranks; };\n'},
    'a header of ours for a word in a text': {'include/raytrain/core/a.hpp': '#include <raytrain/core/identifiers.hpp>\nauto a = "Rank";\n'},
}

if __name__ == '__main__':
    sys.exit(guard.main(check, GOOD, DEFECTS))
