# SPDX-License-Identifier: Apache-2.0


def describe():
    return 'what report() costs a worker, how fast a report arrives, and the channel below it (G5)'


def run(context):
    bursts, single = (20, 300) if context.quick else (100, 1000)
    rounds = [context.program('report', bursts, single, 'runs') for _ in range(context.rounds)]

    def row(case, metric, name, goal=None):
        context.row(case, metric, [figures[name] for figures in rounds], goal=goal, direction='lower')

    for workers in ['one_worker', 'two_workers']:
        case = f'3 fields, {workers.replace("_", " ")}, controller busy'
        row(case, 'report(), p50 in us', f'{workers}_p50_us', goal=0.3)
        row(case, 'report(), p99 in us', f'{workers}_p99_us')
    row('3 fields, controller asleep', 'report() to on_report, p50 in us', 'latency_p50_us', goal=25)
    row('3 fields, controller asleep', 'report() to on_report, p99 in us', 'latency_p99_us')

    # Both channels take turns round by round inside one program.
    for figures in context.program('channel', '--rounds', context.rounds, *['--quick'] * context.quick)['rows']:
        context.row(figures['case'], figures['metric'], figures['values'], goal=figures.get('goal'),
                    direction=figures['direction'])
