# SPDX-License-Identifier: Apache-2.0
"""Runs a driver of tests on the first node of a Slurm cluster of two:

  slurm_cluster.py DRIVER ARGUMENT...

The nodes are the two hosts that hosts.py makes, with a munged, a slurmctld and a slurmd on each. All of it, files and
processes included, is inside of namespaces that go away with the process that made them, however it ends; the system's own
Slurm and its configuration are neither read nor changed. Skipped where it is not allowed to make them.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).parent.parent / 'collective'))
import hosts  # noqa: E402

FOLDER = pathlib.Path('/run')
BATCH = ('SLURM_', 'SBATCH_', 'SALLOC_', 'SRUN_', 'PMI_', 'PMIX_')
INSIDE = '--inside'

# Nothing that needs cgroups, an accounting service, or as many cores as the nodes say that they have. A job that was
# requeued starts again when its credential has expired, which is after 5 seconds at least.
CONFIGURATION = f'''
ClusterName=test
SlurmctldHost=alpha
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={FOLDER}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={FOLDER}/controller
SlurmctldPidFile={FOLDER}/slurmctld.pid
SlurmdSpoolDir={FOLDER}/%n
SlurmdPidFile={FOLDER}/%n.pid
TmpFS={FOLDER}/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,sched_min_interval=0
KillWait=5
NodeName=alpha,beta CPUs=4 State=UNKNOWN
PartitionName=all Nodes=alpha,beta Default=YES MaxTime=INFINITE State=UP
'''


def reason_to_skip():
    reason = hosts.reason_to_skip('mpirun')
    if reason:
        return reason
    missing = [tool for tool in ('munged', 'slurmctld', 'slurmd', 'srun', 'sbatch') if not shutil.which(tool)]
    return f'needs {", ".join(missing)}: Debian has munge, slurmctld, slurmd and slurm-client' if missing else None


class Daemon:
    def __init__(self, name, *command):
        self.log = FOLDER / f'{name}.log'
        with open(self.log, 'wb') as log:
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT)


def nodes():
    done = subprocess.run(['sinfo', '-h', '-o', '%D %t'], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    return done.stdout.strip()


def start():
    """The daemons, once both nodes take jobs."""
    hosts.run('mount', '-t', 'tmpfs', 'none', FOLDER)
    on_beta = hosts.make_hosts(['alpha', 'beta'], FOLDER)
    for name in ('controller', 'alpha', 'beta'):
        (FOLDER / name).mkdir()
    (FOLDER / 'munge.key').write_bytes(os.urandom(128))
    (FOLDER / 'munge.key').chmod(0o600)
    (FOLDER / 'slurm.conf').write_text(CONFIGURATION)
    # Nothing uses it, and yet slurmd looks for one unless it is told of which kind it is.
    (FOLDER / 'cgroup.conf').write_text('CgroupPlugin=cgroup/v1\n')
    for name in list(os.environ):
        if name.startswith(BATCH):
            del os.environ[name]
    os.environ.update(SLURM_CONF=str(FOLDER / 'slurm.conf'), OMPI_MCA_btl_tcp_if_include=f'{hosts.NETWORK}.0/24')
    munge = [f'--{name}={FOLDER}/munge.{name.split("-")[0]}' for name in ('key-file', 'socket', 'pid-file', 'seed-file')]
    daemons = [Daemon('munged', 'munged', '--foreground', *munge),
               Daemon('slurmctld', 'slurmctld', '-i', '-D'),
               Daemon('slurmd_alpha', 'slurmd', '-D', '-N', 'alpha'),
               Daemon('slurmd_beta', on_beta, 'beta', 'slurmd', '-D', '-N', 'beta')]
    deadline = time.monotonic() + 30
    while nodes() != '2 idle':
        ended = [daemon for daemon in daemons if daemon.process.poll() is not None]
        if ended or time.monotonic() > deadline:
            sys.exit(f'the cluster does not start: {nodes()}\n{logs(ended or daemons)}')
        time.sleep(0.02)
    return daemons


def logs(daemons):
    return '\n'.join(f'--- {daemon.log.name}\n{daemon.log.read_text(errors="replace")}' for daemon in daemons)


def inside(driver):
    daemons = start()
    status = subprocess.run([sys.executable, '-B', *driver], stdin=subprocess.DEVNULL, check=False).returncode
    if status not in (0, hosts.SKIPPED):
        print(logs(daemons), flush=True)
    return status


def main(arguments):
    if arguments[0] == INSIDE:
        return inside(arguments[1:])
    os.environ['PATH'] += ':/usr/sbin:/sbin'  # where daemons are, and a root by su does not look
    reason = reason_to_skip()
    if reason:
        print(f'skipped: {reason}')
        return hosts.SKIPPED
    # In place of this process, so that who ends it ends them.
    os.execvp(hosts.ISOLATED[0], [*hosts.ISOLATED, sys.executable, '-B', __file__, INSIDE, *arguments])


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
