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

SKIPPED = 77
NETWORK = '10.77.0'
HOSTS = {'alpha': f'{NETWORK}.1', 'beta': f'{NETWORK}.2'}
ISOLATED = ['unshare', '--mount', '--net', '--uts', '--pid', '--fork', '--kill-child', '--mount-proc']
INSIDE = '--inside'


def run(*command):
    subprocess.run([str(word) for word in command], check=True)


def reason_to_skip():
    missing = [tool for tool in ('ip', 'unshare', 'nsenter', 'mount') if not shutil.which(tool)]
    if missing:
        return f'needs {", ".join(missing)}'
    if os.geteuid() != 0:
        return 'needs root'
    tried = subprocess.run([*ISOLATED, 'ip', 'link', 'add', 'one', 'type', 'veth', 'peer', 'two'], text=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return f'cannot make a network: {tried.stdout.strip()}' if tried.returncode != 0 else None


def make_hosts(folder):
    """Makes this process a host and starts another one; the script that runs a command there."""
    run('hostname', 'alpha')
    names = ''.join(f'{address} {name}\n' for name, address in HOSTS.items())
    (folder / 'hosts').write_text(f'127.0.0.1 localhost\n{names}')
    run('mount', '--bind', folder / 'hosts', '/etc/hosts')
    # It says when it is there, and ends with this process, whose end of the pipe it reads.
    beta = subprocess.Popen(['unshare', '--net', '--uts', 'sh', '-c', 'hostname beta && echo there && exec cat'],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    beta.stdout.readline()
    there = ['nsenter', f'--target={beta.pid}', '--net', '--uts']
    run('ip', 'link', 'add', 'wire', 'type', 'veth', 'peer', 'wire', 'netns', beta.pid)
    for prefix, address in (([], HOSTS['alpha']), (there, HOSTS['beta'])):
        run(*prefix, 'ip', 'address', 'add', f'{address}/24', 'dev', 'wire')
        run(*prefix, 'ip', 'link', 'set', 'wire', 'up')
        run(*prefix, 'ip', 'link', 'set', 'lo', 'up')
    agent = folder / 'agent'
    agent.write_text(f'#!/bin/sh\n# Called as rsh is: HOST COMMAND...\nshift\nexec {" ".join(there)} sh -c "$*"\n')
    agent.chmod(0o755)
    return agent


def inside(mpirun, program):
    folder = pathlib.Path('/run')
    run('mount', '-t', 'tmpfs', 'none', folder)
    agent = make_hosts(folder)
    command = [mpirun, '--host', ','.join(f'{host}:2' for host in HOSTS), '-n', '4', '--bind-to', 'none',
               '--mca', 'plm_rsh_agent', agent, '--mca', 'orte_tmpdir_base', folder,
               '--mca', 'btl_tcp_if_include', f'{NETWORK}.0/24', '--mca', 'oob_tcp_if_include', f'{NETWORK}.0/24',
               '-x', 'RAYTRAIN_TEST_RANKS=4', *program]
    environment = {**os.environ, 'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1',
                   'TMPDIR': str(folder)}
    return subprocess.run([str(word) for word in command], env=environment, stdin=subprocess.DEVNULL,
                          check=False).returncode


def main(arguments):
    if arguments[0] == INSIDE:
        return inside(arguments[1], arguments[2:])
    reason = reason_to_skip()
    if reason:
        print(f'skipped: {reason}')
        return SKIPPED
    # In place of this process, so that who ends it ends them.
    os.execvp(ISOLATED[0], [*ISOLATED, sys.executable, '-B', __file__, INSIDE, *arguments])


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
