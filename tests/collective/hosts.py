# SPDX-License-Identifier: Apache-2.0
"""Runs a test program as the ranks of a job on several hosts, between which there is only a network:

  hosts.py [--rate RATE] alpha:2,beta:2 MPIRUN PROGRAM ARGUMENT...

The hosts are namespaces of this machine with names of their own. All of it, files and processes included, is inside of
namespaces that go away with the process that made them, however it ends. Skipped where it is not allowed to make them.
With a rate, in the words of tc (1gbit), each host sends no faster than that.
With RAYTRAIN_TEST_LAUNCH=mpirun the program starts that job itself, from the first host.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time

SKIPPED = 77
NETWORK = '10.77.0'
HOSTS = {name: f'{NETWORK}.{number}' for number, name in enumerate(('alpha', 'beta', 'gamma'), 1)}
ISOLATED = ['unshare', '--mount', '--net', '--uts', '--pid', '--fork', '--kill-child', '--mount-proc']
# UCX, which MPICH goes through, looks there for interfaces.
SEE_NETWORK = ['mount', '-t', 'sysfs', 'none', '/sys']
# Jobs of other tests may have the same number, since processes are counted from 1 in each.
OWN_MEMORY = ['mount', '-t', 'tmpfs', 'none', '/dev/shm']
INSIDE = '--inside'
# Behind what limits a rate: of a burst, which goes at once, it lets pass a segment of the largest size that Linux makes.
TOKEN_BUCKET = ['burst', '128kb', 'latency', '50ms']


def run(*command):
    subprocess.run([str(word) for word in command], check=True)


def limit(rate):
    """What makes the network of a host as slow as that."""
    return ['tc', 'qdisc', 'add', 'dev', 'wire', 'root', 'tbf', 'rate', rate, *TOKEN_BUCKET]


def reason_to_skip(mpirun, rate=None):
    if ' ' in mpirun:
        return f"Open MPI 5 does not quote the space in its own folder's name when it starts a daemon: {mpirun}"
    missing = [tool for tool in ('ip', 'unshare', 'nsenter', 'mount', *(['tc'] if rate else [])) if not shutil.which(tool)]
    if missing:
        return f'needs {", ".join(missing)}'
    if os.geteuid() != 0:
        return 'needs root'
    words = ['ip', 'link', 'add', 'name', 'wire', 'type', 'bridge', *(['&&', *limit(rate)] if rate else [])]
    tried = subprocess.run([*ISOLATED, 'sh', '-c', ' '.join(words)], text=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return f'cannot make a network: {tried.stdout.strip()}' if tried.returncode != 0 else None


def is_up(prefix):
    command = [*prefix, 'ip', 'link', 'show', 'wire']
    return 'state UP' in subprocess.check_output([str(word) for word in command], text=True)


def make_host(name, temporary):
    """Another host, with an end of a wire to this one, and temporary files of its own; the words that run a command there."""
    # It says when it is there, and ends with this process, whose end of the pipe it reads.
    mounts = ' && '.join(' '.join(words) for words in (SEE_NETWORK, OWN_MEMORY, ['mount', '-t', 'tmpfs', 'none', str(temporary)]))
    host = subprocess.Popen(['unshare', '--mount', '--net', '--uts', 'sh', '-c', f'hostname {name} && {mounts} && echo there && exec cat'],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    host.stdout.readline()
    port = f'to_{name}'
    run('ip', 'link', 'add', 'name', port, 'type', 'veth', 'peer', 'name', 'wire', 'netns', host.pid)
    run('ip', 'link', 'set', port, 'master', 'wire', 'up')
    return ['nsenter', f'--target={host.pid}', '--mount', '--net', '--uts', '--root', '--wd']


def make_hosts(names, folder, rate=None):
    """Makes this process the first host, with a switch to the others; the script that runs a command on one of them."""
    run('hostname', names[0])
    # A socket in a folder that they share would lead around the network.
    temporary = folder / 'tmp'
    temporary.mkdir()
    lines = ''.join(f'{HOSTS[name]} {name}\n' for name in names)
    (folder / 'hosts').write_text(f'127.0.0.1 localhost\n{lines}')
    run('mount', '--bind', folder / 'hosts', '/etc/hosts')
    run(*SEE_NETWORK)
    run(*OWN_MEMORY)
    run('ip', 'link', 'add', 'name', 'wire', 'type', 'bridge')
    reach = {names[0]: [], **{name: make_host(name, temporary) for name in names[1:]}}
    for name, prefix in reach.items():
        run(*prefix, 'ip', 'address', 'add', f'{HOSTS[name]}/24', 'dev', 'wire')
        run(*prefix, 'ip', 'link', 'set', 'wire', 'up')
        run(*prefix, 'ip', 'link', 'set', 'lo', 'up')
        if rate:
            run(*prefix, *limit(rate))
    # An interface is of use some time after that; programs that look before do without it.
    deadline = time.monotonic() + 10
    while not all(is_up(prefix) for prefix in reach.values()):
        if time.monotonic() > deadline:
            sys.exit('the wires between the hosts do not come up')
    agent = folder / 'agent'
    cases = ''.join(f'  {name}) exec {" ".join(prefix)} sh -c "$*" ;;\n' for name, prefix in reach.items() if prefix)
    agent.write_text('#!/bin/sh\n# Called as rsh is: HOST COMMAND...\nhost=$1\nshift\n'
                     f'case $host in\n{cases}  *) echo "no host $host" >&2; exit 1 ;;\nesac\n')
    agent.chmod(0o755)
    return agent


def options(mpirun, agent, folder):
    """How an mpirun is told of what reaches the hosts, and of the network between them."""
    version = subprocess.check_output([mpirun, '--version'], text=True)
    if 'Open MPI' not in version:
        return ['-launcher', 'rsh', '-launcher-exec', agent, '-iface', 'wire']
    network = f'{NETWORK}.0/24'
    common = ['--bind-to', 'none', '-x', 'RAYTRAIN_TEST_RANKS', '--mca', 'btl_tcp_if_include', network]
    if '(Open MPI) 4.' in version:
        return [*common, '--mca', 'plm_rsh_agent', agent, '--mca', 'orte_tmpdir_base', folder, '--mca', 'oob_tcp_if_include', network]
    return [*common, '--prtemca', 'plm_ssh_agent', agent, '--prtemca', 'prte_tmpdir_base', folder,
            '--prtemca', 'prte_if_include', network]


def inside(rate, places, mpirun, program):
    folder = pathlib.Path('/run')
    run('mount', '-t', 'tmpfs', 'none', folder)
    ranks = {name: int(count) for name, count in (place.split(':') for place in places.split(','))}
    agent = make_hosts([*ranks], folder, rate)
    all_ranks = str(sum(ranks.values()))
    reached = options(mpirun, agent, folder)
    launcher = [mpirun, '-hosts' if '-launcher' in reached else '--host', places, *reached]
    supervised = os.environ.get('RAYTRAIN_TEST_LAUNCH') == 'mpirun'
    if supervised:
        launcher += ['-x', 'RAYTRAIN_TEST_LAUNCH']
        os.environ['RAYTRAIN_TEST_COMMAND'] = ' '.join(str(word) for word in launcher)
    command = program if supervised else [*launcher, '-n', all_ranks, *program]
    # UCX would use the memory that the hosts have in common after all.
    environment = {**os.environ, 'RAYTRAIN_TEST_RANKS': all_ranks, 'TMPDIR': str(folder / 'tmp'),
                   'UCX_TLS': 'tcp,self', 'UCX_NET_DEVICES': 'wire'}
    return subprocess.run([str(word) for word in command], env=environment, stdin=subprocess.DEVNULL,
                          check=False).returncode


def main(words):
    parser = argparse.ArgumentParser(prog='hosts.py')
    parser.add_argument(INSIDE, action='store_true', help=argparse.SUPPRESS)
    parser.add_argument('--rate')
    parser.add_argument('places')
    parser.add_argument('mpirun')
    parser.add_argument('program', nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    if given.inside:
        return inside(given.rate, given.places, given.mpirun, given.program)
    reason = reason_to_skip(given.mpirun, given.rate)
    if reason:
        print(f'skipped: {reason}')
        return SKIPPED
    # In place of this process, so that who ends it ends them.
    os.execvp(ISOLATED[0], [*ISOLATED, sys.executable, '-B', __file__, INSIDE, *words])


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
