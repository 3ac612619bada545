# SPDX-License-Identifier: Apache-2.0
"""Runs a test program as four ranks on two hosts, two on each, between which there is only a network:

  two_hosts.py MPIRUN PROGRAM ARGUMENT...

The hosts are namespaces of this machine with names of their own. All of it, files and processes included, is inside of
namespaces that go away with the process that made them, however it ends. Skipped where it is not allowed to make them.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import time

SKIPPED = 77
NETWORK = '10.77.0'
HOSTS = {'alpha': f'{NETWORK}.1', 'beta': f'{NETWORK}.2'}
ISOLATED = ['unshare', '--mount', '--net', '--uts', '--pid', '--fork', '--kill-child', '--mount-proc']
# UCX, which MPICH goes through, looks there for interfaces.
SEE_NETWORK = ['mount', '-t', 'sysfs', 'none', '/sys']
INSIDE = '--inside'


def run(*command):
    subprocess.run([str(word) for word in command], check=True)


def reason_to_skip(mpirun):
    if ' ' in mpirun:
        return f"Open MPI 5 does not quote the space in its own folder's name when it starts a daemon: {mpirun}"
    missing = [tool for tool in ('ip', 'unshare', 'nsenter', 'mount') if not shutil.which(tool)]
    if missing:
        return f'needs {", ".join(missing)}'
    if os.geteuid() != 0:
        return 'needs root'
    tried = subprocess.run([*ISOLATED, 'ip', 'link', 'add', 'one', 'type', 'veth', 'peer', 'two'], text=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return f'cannot make a network: {tried.stdout.strip()}' if tried.returncode != 0 else None


def is_up(prefix):
    command = [*prefix, 'ip', 'link', 'show', 'wire']
    return 'state UP' in subprocess.check_output([str(word) for word in command], text=True)


def make_hosts(folder):
    """Makes this process a host and starts another one; the script that runs a command there."""
    run('hostname', 'alpha')
    names = ''.join(f'{address} {name}\n' for name, address in HOSTS.items())
    (folder / 'hosts').write_text(f'127.0.0.1 localhost\n{names}')
    run('mount', '--bind', folder / 'hosts', '/etc/hosts')
    # It says when it is there, and ends with this process, whose end of the pipe it reads.
    beta = subprocess.Popen(['unshare', '--mount', '--net', '--uts', 'sh', '-c',
                             f'hostname beta && {" ".join(SEE_NETWORK)} && echo there && exec cat'],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    beta.stdout.readline()
    there = ['nsenter', f'--target={beta.pid}', '--mount', '--net', '--uts']
    run(*SEE_NETWORK)
    run('ip', 'link', 'add', 'wire', 'type', 'veth', 'peer', 'wire', 'netns', beta.pid)
    for prefix, address in (([], HOSTS['alpha']), (there, HOSTS['beta'])):
        run(*prefix, 'ip', 'address', 'add', f'{address}/24', 'dev', 'wire')
        run(*prefix, 'ip', 'link', 'set', 'wire', 'up')
        run(*prefix, 'ip', 'link', 'set', 'lo', 'up')
    # An interface is of use some time after that; programs that look before do without it.
    deadline = time.monotonic() + 10
    while not all(is_up(prefix) for prefix in ([], there)):
        if time.monotonic() > deadline:
            sys.exit('the wire between the hosts does not come up')
    agent = folder / 'agent'
    agent.write_text(f'#!/bin/sh\n# Called as rsh is: HOST COMMAND...\nshift\nexec {" ".join(there)} sh -c "$*"\n')
    agent.chmod(0o755)
    return agent


def options(mpirun, places, agent, folder):
    """How an mpirun is told of the hosts, of what reaches them, and of the network between them."""
    version = subprocess.check_output([mpirun, '--version'], text=True)
    if 'Open MPI' not in version:
        return ['-hosts', places, '-launcher', 'rsh', '-launcher-exec', agent, '-iface', 'wire']
    network = f'{NETWORK}.0/24'
    common = ['--host', places, '--bind-to', 'none', '-x', 'RAYTRAIN_TEST_RANKS', '--mca', 'btl_tcp_if_include', network]
    if '(Open MPI) 4.' in version:
        return [*common, '--mca', 'plm_rsh_agent', agent, '--mca', 'orte_tmpdir_base', folder, '--mca', 'oob_tcp_if_include', network]
    return [*common, '--prtemca', 'plm_ssh_agent', agent, '--prtemca', 'prte_tmpdir_base', folder,
            '--prtemca', 'prte_if_include', network]


def inside(mpirun, program):
    folder = pathlib.Path('/run')
    run('mount', '-t', 'tmpfs', 'none', folder)
    agent = make_hosts(folder)
    places = ','.join(f'{host}:2' for host in HOSTS)
    command = [mpirun, *options(mpirun, places, agent, folder), '-n', '4', *program]
    # UCX would use the memory that the hosts have in common after all.
    environment = {**os.environ, 'RAYTRAIN_TEST_RANKS': '4', 'TMPDIR': str(folder),
                   'UCX_TLS': 'tcp,self', 'UCX_NET_DEVICES': 'wire'}
    return subprocess.run([str(word) for word in command], env=environment, stdin=subprocess.DEVNULL,
                          check=False).returncode


def main(arguments):
    if arguments[0] == INSIDE:
        return inside(arguments[1], arguments[2:])
    reason = reason_to_skip(arguments[0])
    if reason:
        print(f'skipped: {reason}')
        return SKIPPED
    # In place of this process, so that who ends it ends them.
    os.execvp(ISOLATED[0], [*ISOLATED, sys.executable, '-B', __file__, INSIDE, *arguments])


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
