# SPDX-License-Identifier: Apache-2.0
"""Trains in ranks of jobs that the program starts, on hosts of which some are lost:

  lost_hosts.py CASE PROGRAM PROGRAM_WITHOUT_RANKS ELASTIC_PROGRAM MPIRUN

The hosts are those that hosts.py makes. The program runs on alpha, from where the others are reached.
"""
import json
import os
import pathlib
import re
import signal
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent / 'collective'))
import hosts  # noqa: E402
from job import Job, WatchedJob, ask_for_ulfm  # noqa: E402

FOLDER = pathlib.Path('/run')
NAMES = ['alpha', 'beta', 'gamma']
INSIDE = '--inside'


class Hosts:
    """Two slots on each, of which the job takes the first four."""

    def __init__(self):
        hosts.run('mount', '-t', 'tmpfs', 'none', FOLDER)
        self.agent = hosts.make_hosts(NAMES, FOLDER)
        self.reached = self.agent.read_text()
        self.file = FOLDER / 'hosts.txt'
        self.file.write_text('# of this test\n' + ''.join(f'{name} slots=2\n' for name in NAMES))
        os.environ.update(RAYTRAIN_TEST_RANKS='4', RAYTRAIN_TEST_LAUNCH='mpirun', RAYTRAIN_TEST_RANK_ORDER='1', TMPDIR=str(FOLDER / 'tmp'))
        self.options = ' '.join(map(str, hosts.options(mpirun, self.agent, FOLDER)))
        self.name_by('--hostfile', self.file)

    def name_by(self, option, value):
        os.environ['RAYTRAIN_TEST_COMMAND'] = f'{mpirun} {option} {value} {self.options}'

    def refuse(self, *names):
        """No connection to them is taken from now on; to others as at first."""
        text = self.reached
        for name in names:
            text = re.sub(rf'^  {name}\) .*$', f'  {name}) echo "connect to host {name}: Connection refused" >&2; exit 255 ;;',
                          text, flags=re.MULTILINE)
        self.agent.write_text(text)

    def switch_off(self, name):
        """All its processes are lost, and it does not come back."""
        self.refuse(name)
        there = re.search(rf'^  {name}\) exec nsenter --target=(\d+)', self.reached, re.MULTILINE)[1]
        space = os.readlink(f'/proc/{there}/ns/uts')
        for process in pathlib.Path('/proc').glob('[0-9]*'):
            try:
                is_there = os.readlink(process / 'ns/uts') == space
            except OSError:
                continue
            if is_there and process.name != there:
                os.kill(int(process.name), signal.SIGKILL)


def train(what='', max_failures=1):
    return Job(program, FOLDER / 'runs', what, 4, 2, max_failures)


def watch(steps, what='wait_once', max_failures=1):
    return WatchedJob(program, FOLDER / 'runs', what, 4, 2, max_failures, steps=steps)


def expect_whole(job, attempts=2):
    result = job.expect_all_say(1, 'result', 'finished', '24 reports, 6 checkpoints', f'{attempts} attempts')
    environment = {name: value for name, value in os.environ.items() if name != 'RAYTRAIN_TEST_LAUNCH'}
    whole = Job(without_ranks, FOLDER / 'threads', '', 4, env=environment).expect_all_say(1, 'result', 'finished')
    parameters = [re.search(r'sum (\S+),', line)[1] for line in (result, whole)]
    job.expect(f'it reaches what threads reach, {whole}', parameters[0] == parameters[1])
    job.expect_nobody_left(5)


def expect_hosts(job, *names):
    """Of the last attempt."""
    trained = json.loads((FOLDER / 'runs/ranks/run.json').read_text())['hosts']
    job.expect(f'it has trained on {names}, {trained}', trained == [*names])


def expect_restarts(job, *lines):
    told = [line.strip() for line in job.lines_with('restart without')]
    job.expect(f'callbacks are told {lines}', told == [*lines])


def expect_told(job, *names):
    log = (FOLDER / 'runs/ranks/progress.jsonl').read_text()
    expect_restarts(job, f'restart without {" ".join(names)}')
    job.expect('progress.jsonl names them', re.search(f'"lost_hosts": ?"{", ".join(names)}"', log))


def switched_off():
    """The next job runs on the hosts that are left."""
    cluster = Hosts()
    job = watch([('rank 2 waits', 1, lambda *_: cluster.switch_off('beta'))])
    expect_whole(job)
    expect_told(job, 'beta')
    expect_hosts(job, 'alpha', 'gamma')
    job.expect('it is noticed soon', job.seconds_since_step < 20)


def taken_away():
    """After a notice to one of its ranks a host is left out, and nothing has failed."""
    cluster = Hosts()

    def give_notice(_, said):
        cluster.refuse('beta')
        os.kill(int(re.search(r'^rank 2 of .* process (\d+)$', said, re.MULTILINE)[1]), signal.SIGTERM)

    steps = [('rank 2 waits', 1, give_notice), ('restart without', 1, lambda *_: cluster.switch_off('beta'))]
    job = watch(steps, max_failures=0)
    expect_whole(job)
    expect_told(job, 'beta')
    expect_hosts(job, 'alpha', 'gamma')


def unplugged():
    """No word comes from it any more, as when its network is cut."""
    cluster = Hosts()
    job = watch([('rank 2 waits', 1, lambda *_: hosts.run('ip', 'link', 'set', 'to_beta', 'down')),
                 ('result', 1, lambda *_: cluster.switch_off('beta'))])  # where nobody can tell the ranks to end
    expect_whole(job)
    expect_told(job, 'beta')
    expect_hosts(job, 'alpha', 'gamma')


def expect_does_without_beta(cluster):
    cluster.refuse('beta')
    job = train()
    expect_whole(job)
    expect_told(job, 'beta')
    expect_hosts(job, 'alpha', 'gamma')


def dead_from_start():
    expect_does_without_beta(Hosts())


def listed_hosts():
    """Named by a list."""
    cluster = Hosts()
    cluster.name_by('--host', 'alpha:2,beta:2,gamma:2')
    expect_does_without_beta(cluster)


def rank_killed():
    """It is no fault of its host's."""
    Hosts()
    job = train('kill')
    expect_whole(job)
    expect_restarts(job, 'restart without')
    expect_hosts(job, 'alpha', 'beta')


def too_few_slots():
    cluster = Hosts()
    cluster.file.write_text('alpha slots=2\nbeta slots=2\n')
    os.environ['RAYTRAIN_TEST_START_TIMEOUT'] = '15000'  # of a busy machine
    job = watch([('rank 2 waits', 1, lambda *_: cluster.switch_off('beta'))], max_failures=5)
    job.expect_all_say(1, 'failed', 'starting the ranks again on the hosts that are left: no answer comes from beta, and '
                       'what is left (alpha) has 2 slots for 4 ranks; repair a host, or name more of them in '
                       'ScalingConfig::job_command; start it again to go on from', '1 attempts')
    job.expect_nobody_left(5)


def comes_back():
    """A host that was left out is used again when there are too few slots without it."""
    cluster = Hosts()
    cluster.refuse('beta')
    # From now on gamma alone is refused.
    job = watch([('rank 2 waits', 1, lambda *_: cluster.switch_off('gamma'))], max_failures=2)
    expect_whole(job, attempts=3)
    expect_restarts(job, 'restart without beta', 'restart without gamma')
    job.expect_all_say(1, 'warning: host beta answers again, and may be used again')
    expect_hosts(job, 'alpha', 'beta')


def comes_back_at_the_end():
    """So it is when no other host is left."""
    cluster = Hosts()
    cluster.file.write_text('beta slots=4\ngamma slots=4\n')
    cluster.refuse('beta')
    job = watch([('rank 2 waits', 1, lambda *_: cluster.switch_off('gamma'))], max_failures=2)
    expect_whole(job, attempts=3)
    expect_restarts(job, 'restart without beta', 'restart without gamma')
    expect_hosts(job, 'beta')


def watch_elastic(steps, fewest=1, most=4, asked='-'):
    return WatchedJob(elastic_program, FOLDER / 'runs', 'mpirun', fewest, most, asked, steps=steps)


def expect_elastic(job, *sizes):
    job.expect_all_say(1, 'each sample once')
    job.expect_all_say(1, 'result', 'finished, 3 reports', f'sizes {" ".join(map(str, sizes))}')
    job.expect_nobody_left(10)


def expect_elastic_hosts(job, *names):
    trained = json.loads((FOLDER / 'runs/r/run.json').read_text())['hosts']
    job.expect(f'it has trained on {names}, {trained}', trained == [*names])


def fewer_go_on():
    """On the hosts that are left, without a failure more than the lost host's."""
    cluster = Hosts()
    cluster.file.write_text('alpha slots=2\nbeta slots=2\n')
    job = watch_elastic([('rank 2 waits', 1, lambda *_: cluster.switch_off('beta'))])
    expect_elastic(job, 4, 2)
    job.expect_all_say(1, 'attempt 1 of 4 has failed')
    expect_elastic_hosts(job, 'alpha')


def changes_while_all_train(before, after):
    """The host file, in which each host has two slots; all go on where it says, and it is no failure."""
    cluster = Hosts()

    def lines(names):
        return ''.join(f'{name} slots=2\n' for name in names)

    cluster.file.write_text(lines(before))
    job = watch_elastic([('rank 0 waits', 1, lambda *_: cluster.file.write_text(lines(after)))])
    expect_elastic(job, 2 * len(before), 2 * len(after))
    job.expect_all_say(1, f'attempt 1 of {2 * len(before)} is over, lost 0')
    job.expect('it is noticed soon', job.seconds_since_step < 20)
    expect_elastic_hosts(job, *after)


def host_is_added():
    changes_while_all_train(['alpha'], ['alpha', 'beta'])


def host_is_taken_away():
    changes_while_all_train(['alpha', 'beta'], ['alpha'])


def host_is_exchanged():
    """As many go on, elsewhere."""
    changes_while_all_train(['alpha', 'beta'], ['alpha', 'gamma'])


def resources_count():
    """A host has no more workers than it has licenses for, and none where its line names none."""
    cluster = Hosts()
    os.environ['RAYTRAIN_TEST_LICENSED'] = '1'
    cluster.file.write_text('alpha slots=2\nbeta slots=2\n')
    refused = Job(elastic_program, FOLDER / 'runs', 'mpirun', 1, 4, '-')
    refused.expect_all_say(1, 'error', 'resources_per_worker.custom: hosts that say how much they have, and have enough, have it for 0 of 1 to 4 '
                           'workers; write it into the lines of the host file, as "alpha slots=4 license=2"')
    cluster.file.write_text('gamma slots=2\nalpha slots=2 license=1\n')
    job = watch_elastic([('rank 0 waits', 1, lambda *_: cluster.file.write_text('gamma slots=2\nalpha slots=2 license=1\nbeta slots=4 license=2\n'))])
    expect_elastic(job, 1, 3)
    expect_elastic_hosts(job, 'alpha', 'beta')


def silent_host_is_added():
    """It is told and left alone; a file with line ends of Windows is read."""
    cluster = Hosts()
    cluster.refuse('gamma')
    cluster.file.write_text('alpha slots=2\n')
    job = watch_elastic([('rank 0 waits', 1, lambda *_: cluster.file.write_text('alpha slots=2\ngamma slots=2\n')),
                         ('warning: no answer comes from gamma', 1,
                          lambda *_: cluster.file.write_text('alpha slots=2\r\nbeta slots=2\r\n'))])
    expect_elastic(job, 2, 4)
    expect_elastic_hosts(job, 'alpha', 'beta')


def file_vanishes():
    """The hosts stay as they are, until it is there again."""
    cluster = Hosts()
    cluster.file.write_text('alpha slots=2\n')

    def replace(*_):
        cluster.file.unlink()
        cluster.file.write_text('alpha slots=2\nbeta slots=2\n')

    expect_elastic(watch_elastic([('rank 0 waits', 1, replace)]), 2, 4)


def waits_for_hosts():
    """Too few are left, until one comes back."""
    cluster = Hosts()
    cluster.file.write_text('alpha slots=2\nbeta slots=2\n')
    job = watch_elastic([('rank 2 waits', 1, lambda *_: cluster.switch_off('beta')),
                         ('warning: waits for hosts', 1, lambda *_: cluster.agent.write_text(cluster.reached))], fewest=3)
    expect_elastic(job, 4, 4)
    job.expect_all_say(1, 'warning: waits for hosts: no answer comes from beta, and what is left (alpha) has 2 slots for 3 to 4 ranks')
    expect_elastic_hosts(job, 'alpha', 'beta')


def comes_back_while_others_train():
    """A host that was left out is asked again, and used."""
    cluster = Hosts()
    cluster.file.write_text('alpha slots=2\nbeta slots=2\n')
    job = watch_elastic([('rank 2 waits', 1, lambda *_: cluster.switch_off('beta')),
                         ('rank 0 waits in attempt 2', 1, lambda *_: cluster.agent.write_text(cluster.reached))], asked='-,-')
    expect_elastic(job, 4, 2, 4)
    job.expect_all_say(1, 'warning: host beta answers again')


def expect_one_job(job):
    """All attempts are of the same processes."""
    of_rank_0 = set(re.findall(r'^rank 0 of .* process (\d+)$', job.text, re.MULTILINE))
    job.expect('rank 0 stays where it is', len(of_rank_0) == 1)


def survivors_of_hosts_go_on():
    """In the same job, where MPI itself goes on without a rank that is killed while all of them exchange."""
    cluster = Hosts()
    os.environ['RAYTRAIN_TEST_COMMAND'] += f' {ask_for_ulfm(mpirun)}'
    cluster.file.write_text('alpha slots=2\nbeta slots=2\n')
    job = Job(elastic_program, FOLDER / 'runs', 'mpirun', 1, 4, 'kill3')
    expect_elastic(job, 4, 3)
    expect_one_job(job)
    expect_elastic_hosts(job, 'alpha', 'beta')


def host_is_lost_with_ulfm():
    """Its launcher ends the job then, and another one is started on the hosts that are left."""
    cluster = Hosts()
    os.environ['RAYTRAIN_TEST_COMMAND'] += f' {ask_for_ulfm(mpirun)}'
    cluster.file.write_text('alpha slots=2\nbeta slots=2\n')
    job = watch_elastic([('rank 2 waits', 1, lambda *_: cluster.switch_off('beta'))])
    expect_elastic(job, 4, 2)
    expect_elastic_hosts(job, 'alpha')


CASES = {function.__name__: function for function in (switched_off, taken_away, unplugged, dead_from_start, listed_hosts, rank_killed, too_few_slots,
                                                  comes_back, comes_back_at_the_end, fewer_go_on, host_is_added, host_is_taken_away,
                                                  host_is_exchanged, resources_count, silent_host_is_added, file_vanishes, waits_for_hosts, comes_back_while_others_train,
                                                  survivors_of_hosts_go_on, host_is_lost_with_ulfm)}

if sys.argv[1] == INSIDE:
    _, _, case, program, without_ranks, elastic_program, mpirun = sys.argv
    CASES[case]()
else:
    reason = hosts.reason_to_skip(sys.argv[-1])
    if reason:
        print(f'skipped: {reason}')
        sys.exit(hosts.SKIPPED)
    # In place of this process, so that who ends it ends them.
    os.execvp(hosts.ISOLATED[0], [*hosts.ISOLATED, sys.executable, '-B', __file__, INSIDE, *sys.argv[1:]])
