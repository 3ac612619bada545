# SPDX-License-Identifier: Apache-2.0
"""Two workers of torchrun's elastic agent become three, by a second agent that joins. Prints as JSON the milliseconds until all
three have done a step: from the start of that agent, and from the end of the first of the two workers. Argument: folder."""
import json
import os
import pathlib
import select
import socket
import subprocess
import sys
import time

TRAINING = pathlib.Path(__file__).resolve().parent / 'elastic_training.py'
MOST_S = 120


def free_port():
    with socket.socket() as server:
        server.bind(('127.0.0.1', 0))
        return server.getsockname()[1]


def agent(folder, port, workers):
    # The first agent waits for others until the last call. In PyTorch 2.15 it does not tell a second one where the store is that
    # the agents share by default, and after a minute both fail.
    return subprocess.Popen([sys.executable, '-m', 'torch.distributed.run', '--nnodes=1:2', f'--nproc_per_node={workers}',
                             '--rdzv_id=recovery', '--rdzv_backend=c10d', f'--rdzv_endpoint=127.0.0.1:{port}',
                             '--rdzv_conf=last_call_timeout=1', '--max_restarts=1', '--monitor_interval=0.1', str(TRAINING), str(folder)],
                            env={**os.environ, 'TORCH_DISABLE_SHARE_RDZV_TCP_STORE': '1'},
                            stdout=subprocess.DEVNULL, stderr=open(folder / f'agent_{workers}.log', 'wb'))


def moments(folder):
    file = folder / 'moments'
    lines = file.read_text().splitlines() if file.exists() else []
    return {line.split()[0]: int(line.split()[1]) for line in lines if line.count(' ') == 1}


def waiting(folder, first):
    """The two workers, once they wait for the third."""
    deadline = time.monotonic() + MOST_S
    while time.monotonic() < deadline and first.poll() is None:
        workers = [int(what.split('_')[1]) for what in moments(folder) if what.startswith('waits_')]
        if len(workers) == 2:
            return workers
        time.sleep(0.05)
    sys.exit(f'the two workers have not begun\n{(folder / "agent_2.log").read_text()}')


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    folder.mkdir()
    port = free_port()
    first = agent(folder, port, 2)
    agents = [first]
    try:
        poll = select.poll()
        for worker in waiting(folder, first):
            poll.register(os.pidfd_open(worker), select.POLLIN)
        wished = time.monotonic_ns()
        agents.append(agent(folder, port, 1))
        if not poll.poll(MOST_S * 1000):
            sys.exit('the two workers go on without the third')
        ended = time.monotonic_ns()
        if any([each.wait(MOST_S) for each in agents]):
            sys.exit('\n'.join(log.read_text() for log in sorted(folder.glob('agent_*.log'))))
    finally:
        for each in agents:
            if each.poll() is None:
                each.terminate()  # it ends its workers
                each.wait(MOST_S)
    step = moments(folder)['step']
    print(json.dumps({'step_ms': (step - wished) / 1e6, 'step_after_end_ms': (step - ended) / 1e6}))


if __name__ == '__main__':
    main()
