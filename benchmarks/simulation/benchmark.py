# SPDX-License-Identifier: Apache-2.0


def describe():
    return 'the real Controller under a virtual clock: up to 16,384 workers, 54 days, failures as of Llama 3 (G12)'


def run(context):
    days = 5.4 if context.quick else 54

    def goal(value):
        return None if context.quick else value  # the goals are those of 54 days

    def simulate(workers, seed, what):
        return context.program('simulation', workers, days, seed, what)

    # Both sides see the same failures.
    figures = context.in_turns({what: lambda number, what=what: simulate(16384, number + 1, what) for what in ['all', 'ray_train']})
    ours, ray_train = figures['all'], figures['ray_train']

    def row(case, metric, name, figures, goal=None, direction='higher'):
        context.row(f'{case}, {days} days', metric, [each[name] for each in figures], goal=goal, direction=direction)

    most = '16,384 workers'
    row(most, 'simulated in CPU seconds', 'cpu_s', ours, goal(60), 'lower')
    row(most, 'goodput in %', 'goodput_percent', ours, goal(99.5))
    row(most, 'launches alone, in % of the time', 'launches_percent', ours, direction='lower')
    row(most, 'seconds between checkpoints', 'interval_s', ours)
    row(most, 'failures', 'failures', ours)
    row(most, 'bytes a worker, of controller and simulator', 'bytes_a_worker', ours, 16 * 1024, 'lower')
    row(f"{most}, Ray Train's delays", 'goodput in %', 'goodput_percent', ray_train)
    row(f'{most}, 1.7 times the failures', 'goodput in %', 'goodput_percent', [simulate(16384, 1, 'more_failures')])
    for workers in [1024, 64]:
        row(f'{workers:,} workers', 'goodput in %', 'goodput_percent',
            [simulate(workers, seed, 'all') for seed in range(1, context.rounds + 1)])

    quarters = [simulate(16384, 1, 'every_report')]
    case = f'{most}, a checkpoint in 15 min, each one simulated'
    row(case, 'simulated in CPU seconds', 'cpu_s', quarters, goal(60), 'lower')
    row(case, 'goodput in %', 'goodput_percent', quarters)

    figures = context.in_turns({workers: lambda _, workers=workers: context.program('simulation', workers, 2, 1, 'no_failures')
                                for workers in [1024, 16384]})
    few, many = figures[1024], figures[16384]
    case = '16,384 workers over 1,024, no failures'
    for metric, name, most in [('messages a worker', 'messages_a_worker', 1.01), ('CPU time a message', 'us_a_message', None),
                               ('messages a worker of ranks that have returned', 'messages_of_returns_a_worker', None)]:
        context.row(case, metric, [n[name] / k[name] for k, n in zip(few, many)], goal=most, direction='lower')
    context.row('16,384 workers, no failures', 'CPU us a message', [each['us_a_message'] for each in many], direction='lower')
