# SPDX-License-Identifier: Apache-2.0
"""Starts a program several times, as processes that XGBoost makes known to each other or that exchange nothing:

  processes.py WORLD together|apart PROGRAM ARGUMENTS...

Each gets three arguments more: the tracker's port (0: they exchange nothing), its rank and WORLD. Prints what rank 0
printed.

The tracker speaks XGBoost 1.7's rabit protocol, of which this is what workers need that come once and do not fail. All
numbers are 32 bits in the byte order of the hosts; a string has its length in front.
"""
import pathlib
import socket
import struct
import subprocess
import sys
import threading

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from end_together import end_together  # noqa: E402

MAGIC = 0xff99


class Peer:
    def __init__(self, connection, host):
        self.connection, self.host, self.port = connection, host, 0

    def number(self):
        return struct.unpack('@i', self.connection.recv(4, socket.MSG_WAITALL))[0]

    def text(self):
        return self.connection.recv(self.number(), socket.MSG_WAITALL).decode()

    def send(self, *values):
        for value in values:
            if isinstance(value, str):
                self.connection.sendall(struct.pack('@i', len(value)) + value.encode())
            else:
                self.connection.sendall(struct.pack('@i', value))


def greet(listener):
    """The next worker, its task and what it wants."""
    connection, address = listener.accept()
    peer = Peer(connection, address[0])
    if peer.number() != MAGIC:
        raise ConnectionError('somebody who is no worker has connected')
    peer.send(MAGIC)
    peer.number(), peer.number()  # rank and world, which a worker that comes for the first time does not know
    return peer, peer.text(), peer.text()


def place(peer, rank, world, peers):
    """Tells a worker its neighbours in a tree and a ring, and with which of those before it to connect."""
    parent = (rank - 1) // 2 if rank > 0 else -1
    tree = [parent] * (rank > 0) + [child for child in (2 * rank + 1, 2 * rank + 2) if child < world]
    ring = [(rank - 1) % world, (rank + 1) % world]
    peer.send(rank, parent, world, len(tree), *tree, *ring)
    errors = True
    while errors:
        missing = {*tree, *ring} - {peer.number() for _ in range(peer.number())}
        before = [other for other in sorted(missing) if other < rank]
        peer.send(len(before), len(missing) - len(before))
        for other in before:
            peer.send(peers[other].host, peers[other].port, other)
        errors = peer.number() > 0
    peer.port = peer.number()


def track(listener, world):
    workers = {}
    while len(workers) < world:
        peer, task, command = greet(listener)
        if command == 'start':
            workers[task] = peer
    peers = [workers[task] for task in sorted(workers)]
    for rank, peer in enumerate(peers):
        place(peer, rank, world, peers)
    ended = 0
    while ended < world:
        ended += greet(listener)[2] == 'shutdown'


def main():
    world, how, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    with socket.create_server(('127.0.0.1', 0)) as listener:
        port = 0
        if how == 'together':
            port = listener.getsockname()[1]
            threading.Thread(target=track, args=(listener, world), daemon=True).start()
        started = [subprocess.Popen([*command, str(port), str(rank), str(world)], text=True, stdout=subprocess.PIPE)
                   for rank in range(world)]
        statuses = end_together(started)
    print(started[0].stdout.read(), end='')
    return max(map(abs, statuses))


if __name__ == '__main__':
    sys.exit(main())
