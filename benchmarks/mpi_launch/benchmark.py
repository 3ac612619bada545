# SPDX-License-Identifier: Apache-2.0
import statistics
import tempfile
import time

GOAL_FIRST_STEP_MS, GOAL_ROUND_TRIP = 30, 1.5

RANKS = [2, 4, 8, 16, 32, 64]
QUICK_RANKS = [2, 16, 64]
LINES = {'tcp': 'TCP', 'unix': 'Unix'}
PLACES = {'own_cores': 'a core each', 'any_cores': 'any cores'}
SENDERS = [1, 2, 4]


def describe():
    return 'fit() under mpirun against a plain MPI program, the line between ranks against sockets, the cost of 2 to 64 ranks'


def run(context):
    context.needs('mpi_launch/first_step', 'libopenmpi-dev', 'openmpi-bin')
    context.versions['mpirun'] = context.text('mpirun', '--version').splitlines()[0]

    def mpirun(ranks, name, *arguments):
        return context.command('mpirun', '-n', ranks, context.build / 'benchmarks' / context.name / name, *arguments,
                               env=context.mpirun_env())

    first_step(context, mpirun)
    line(context)
    rounds_of_reports(context, mpirun)


def first_step(context, mpirun):
    folders = iter(range(1_000_000))

    def start(ranks, name, *arguments):
        """Milliseconds from before mpirun until the last rank is where its work begins."""
        called_ns = time.monotonic_ns()
        return (mpirun(ranks, name, *arguments)['first_step_ns'] - called_ns) / 1e6

    def rows(ranks, count, storage, folder):
        ours, hello, more = [], [], []
        for _ in range(context.rounds):
            pairs = [(start(ranks, 'first_step', f'{folder}/{next(folders)}'), start(ranks, 'hello')) for _ in range(count)]
            ours.append(statistics.median(pair[0] for pair in pairs))
            hello.append(statistics.median(pair[1] for pair in pairs))
            more.append(statistics.median(pair[0] - pair[1] for pair in pairs))
        # Where ranks take turns on a core, with each other or with other programs, each of fit()'s exchanges between them
        # waits for a turn.
        case = f'{ranks} ranks, storage {storage}'
        context.row(case, 'first step later than MPI hello by, ms', more, goal=GOAL_FIRST_STEP_MS if ranks == 2 else None,
                    direction='lower')
        context.row(case, 'mpirun to first step, ms', ours, direction='lower')
        context.row(case, 'mpirun to barrier of MPI hello, ms', hello, direction='lower')

    # Of two ranks several pairs in each round, since single starts scatter by more than they differ.
    with tempfile.TemporaryDirectory(dir='/dev/shm') as memory:
        rows(2, 3 if context.quick else 7, 'in memory', memory)
    for ranks, count in [(2, 3), (16, 1)] if context.quick else [(ranks, 7 if ranks == 2 else 1) for ranks in RANKS]:
        rows(ranks, count, 'on disk', 'starts')


def line(context):
    round_trips, streamed = (1000, 10_000) if context.quick else (5000, 100_000)
    figures = context.in_turns({
        (where, how): lambda _, where=where, how=how: context.program('control_line', how, where, round_trips, streamed)
        for where in PLACES for how in LINES})
    for (where, how), turns in figures.items():
        case = f'{LINES[how]}, {PLACES[where]}'
        pings = [turn['raw_us'] for turn in turns]
        tcp_pings = [turn['raw_us'] for turn in figures[where, 'tcp']]
        # Where both processes take turns on one core, a raw ping wakes no other core: no place for ranks.
        goal = GOAL_ROUND_TRIP if where == 'own_cores' else None

        def over(metric, name, pings, goal=None):
            context.row(case, metric, [turn[name] / ping for turn, ping in zip(turns, pings)], goal=goal, direction='lower')

        over('report and answer, time over a raw TCP ping', 'waited_us', tcp_pings, goal)
        if how != 'tcp':
            over(f'report and answer, time over a raw {LINES[how]} ping', 'waited_us', pings)
        over(f"answer to the client's thread, over a raw {LINES[how]} ping", 'inside_us', pings)
        context.row(case, 'report and answer, us', [turn['waited_us'] for turn in turns], direction='lower')
        context.row(case, 'raw ping, us', pings, direction='lower')
    for how, name in LINES.items():
        turns = figures['own_cores', how]
        for senders in SENDERS:
            case = f'{name}, a core each, {senders} sending'
            context.row(case, 'million reports a second', [turn[f'rate_{senders}'] / 1e6 for turn in turns])
            context.row(case, 'reports, rate over raw sends',
                        [turn[f'rate_{senders}'] / turn[f'raw_rate_{senders}'] for turn in turns])


def rounds_of_reports(context, mpirun):
    count, idle_ms = (50, 1000) if context.quick else (500, 3000)
    worlds = QUICK_RANKS if context.quick else RANKS
    turns = [[mpirun(ranks, 'report_rounds', count, idle_ms if ranks == 2 else 0, f'rounds_{number}_{ranks}') for ranks in worlds]
             for number in range(context.rounds)]
    for at, ranks in enumerate(worlds):
        context.row(f'{ranks} ranks', 'controller, processor us a round', [turn[at]['controller_us'] for turn in turns],
                    direction='lower')
    lines = [least_squares(worlds, [figures['controller_us'] for figures in turn]) for turn in turns]
    for which, metric in enumerate(['slope, us a rank', 'intercept, us']):
        context.row('controller, 2 to 64 ranks', metric, [fit[which] for fit in lines], direction='lower')
    context.row('controller, 2 to 64 ranks', 'share that the line explains', [fit[2] for fit in lines])

    two = [turn[0] for turn in turns]
    context.row('3 metrics, 2 ranks', 'bytes a report and rank', [figures['report_bytes'] for figures in two], direction='lower')
    context.row('3 metrics, 64 ranks', 'bytes a report and rank', [turn[-1]['report_bytes'] for turn in turns], direction='lower')
    context.row('idle, 2 ranks', 'bytes a second and rank', [figures['idle_bytes'] * 1000 / idle_ms for figures in two],
                direction='lower')
    for at, ranks in [(0, 2), (-1, 64)]:
        context.row(f'{ranks} ranks', 'bytes a rank besides reports', [
            turn[at]['up_bytes'] - turn[at]['reports'] * turn[at]['report_bytes'] for turn in turns], direction='lower')
        # At the end every rank is given the reports of all.
        context.row(f'{ranks} ranks', 'bytes told to a rank, for each of its reports',
                    [turn[at]['down_bytes'] / turn[at]['reports'] for turn in turns], direction='lower')


def least_squares(xs, ys):
    """Slope, intercept and R squared."""
    slope, intercept = statistics.linear_regression(xs, ys)
    return slope, intercept, statistics.correlation(xs, ys) ** 2
