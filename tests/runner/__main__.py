# SPDX-License-Identifier: Apache-2.0
"""What tests/run does once the packages are there and build/ is configured."""
import argparse
import datetime
import os
import sys
import time

from building import BUILD, install_for, option_of
from cells import (CHAOS_MINUTES, LONG_CHAOS_MINUTES, address_sanitizer, benchmarks, chaos, clang_alone, coverage, extended_tests,
                   failing_power, fresh_machine, fuzzing, killed_trainings, slow_tests, soak, thread_sanitizer)
from counts import Count, say, say_not_tested, say_passed_at_second_try
from other_libraries import current_libtorch, current_xgboost, like_python, mpich, open_mpi_5
from parse_time import say_parse_time
from schedule import in_turn, run_cell
from testing import below_floor, build_and_run, chosen_by, tests_of

EXTENDED = 'extended tests'  # the first cell; --minutes does not end it


def options_of(arguments):
    parser = argparse.ArgumentParser(prog='tests/run', allow_abbrev=False)  # what sets up knows whole options
    parser.add_argument('--all', action='store_true')
    parser.add_argument('--long', action='store_true')
    parser.add_argument('--coverage', action='store_true')
    parser.add_argument('--chaos-minutes', type=float, metavar='M', help='in each launch')
    parser.add_argument('--minutes', type=float, metavar='M', help='end the cells then, and say which ones were left out')
    parser.add_argument('--cell', action='append', help='only these of the cells of --all')
    parser.add_argument('patterns', nargs='*')
    return parser.parse_args(arguments)


def cells_of(options):
    """The cells that are asked for, by name: a function and its arguments."""
    of_both = {
        'chaos': (chaos, options.chaos_minutes or (LONG_CHAOS_MINUTES if options.long else CHAOS_MINUTES)),
        'fuzzing': (fuzzing, 300 if options.long else 60),
    }
    of_all = {
        EXTENDED: (extended_tests,),
        'slow tests': (slow_tests,),
        'AddressSanitizer': (address_sanitizer,),
        'ThreadSanitizer': (thread_sanitizer,),
        'Open MPI 5': (open_mpi_5,),
        'current LibTorch': (current_libtorch,),
        'clang, no optional dependency': (clang_alone,),
        'chaos': of_both['chaos'],
        'benchmarks': (benchmarks,),
        'fuzzing': of_both['fuzzing'],
        'current XGBoost': (current_xgboost,),
        'scikit-learn and pandas': (like_python,),
        'killed trainings': (killed_trainings,),
    }
    of_long = {
        'fuzzing': of_both['fuzzing'],
        'MPICH': (mpich,),
        'soak': (soak,),
        'failing power': (failing_power,),
        'chaos': of_both['chaos'],
        'fresh machine, bookworm': (fresh_machine, 'bookworm'),
        'fresh machine, trixie': (fresh_machine, 'trixie'),
    }
    cells = {**(of_all if options.all or options.cell else {}), **(of_long if options.long or options.cell else {})}
    unknown = set(options.cell or ()) - set(cells)
    if unknown:
        sys.exit(f'tests/run: there is no cell {", ".join(sorted(map(repr, unknown)))}; there are {", ".join(map(repr, cells))}')
    return {name: cell for name, cell in cells.items() if name in (options.cell or cells)}


def run_tests(patterns, slower):
    """Those of build/ that the patterns choose; without patterns all but those of the suites that are slower. What it counts, and the
    tests of the suite extended that it has left out."""
    total = Count()
    every_test = tests_of(BUILD)
    all_tests = [test for test in every_test if patterns or not test.suites & slower]
    for tests, arguments in chosen_by(patterns, all_tests):
        install_for(tests)
        count = build_and_run(BUILD, tests, arguments, show=True) if tests or not patterns else Count()
        if str(count) == str(Count()):
            say(f"=== No test and no test case is called '{arguments[0].partition('=')[2].strip('*')}'. `meson test -C {BUILD} --list` has the names of all tests.")
            count.failed += 1
        total += count
    if not patterns:
        if not total.failed:
            total += below_floor(all_tests, lambda name: option_of(BUILD, name), os.environ.get('RAYTRAIN_SETUP') != 'no')
        say_parse_time()
    return total, [] if patterns else [test for test in every_test if 'extended' in test.suites]


def main():
    options = options_of(sys.argv[1:])
    start = time.monotonic()
    end_s = None if options.minutes is None else start + 60 * options.minutes
    cells = cells_of(options)
    total, extended = Count(), []
    if not options.cell:
        count, extended = run_tests(options.patterns, {'slow', 'extended'} if options.long else {'slow', 'long', 'extended'})
        total += count
    if EXTENDED in cells:
        total += run_cell(EXTENDED, *cells.pop(EXTENDED))
        extended = []
    if options.minutes is not None and cells:
        cells = in_turn(cells, datetime.date.today().toordinal())
    for name, cell in cells.items():
        total += run_cell(name, *cell, end_s=end_s)
    if options.coverage:
        total += run_cell('coverage', coverage)
    say_not_tested()
    say_passed_at_second_try()
    if extended:
        say(f"\nLeft out: {len(extended)} tests of the suite extended, which ./tests/run --cell '{EXTENDED}' runs, as --all does.")
    say(f'\nThat took {time.monotonic() - start:.0f} s.')
    say(str(total))
    return 1 if total.failed else 0


if __name__ == '__main__':
    sys.exit(main())
