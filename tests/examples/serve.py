# SPDX-License-Identifier: Apache-2.0
"""Trains adult_income, asks the example serve by curl what the model says of the held-out rows, also under load, gives it requests
that are wrong, lets the training go on, and stops it:

  serve.py ADULT_INCOME SERVE torch|xgboost
"""
import concurrent.futures
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from ended import ended_with_us

ended_with_us()

CONNECTIONS, REQUESTS = 8, 1000
LIMIT_S = 120

adult_income, serve = (os.path.abspath(path) for path in sys.argv[1:3])
backend = sys.argv[3]
if not shutil.which('curl'):
    print('needs curl')
    sys.exit(77)


def require(truth, what):
    if not truth:
        sys.exit(f'serve by {backend}: {what}')


def train(folder, *arguments):
    subprocess.run([adult_income, '--backend', backend, '--rows', '5000', '--storage', '.', '--predictions', 'predictions.csv', *arguments],
                   cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=LIMIT_S)


def curl(*arguments, body=''):
    command = ['curl', '--disable', '--noproxy', '*', '--silent', '--show-error', '--no-progress-meter', '--max-time', str(LIMIT_S)]
    done = subprocess.run([*command, *arguments], input=body, text=True, check=True, stdout=subprocess.PIPE)
    return done.stdout


def ask(url, body, *arguments):
    """The status and the answer."""
    said, status = curl('--write-out', '%{http_code}', '--json', '@-', *arguments, url, body=body).rsplit('\n', 1)
    return int(status), json.loads(said)


def row_of(line):
    number = lambda text: float(text) if text else None
    return json.dumps({'hours': number(line['hours']), 'age': number(line['age']), 'workclass': line['workclass'] or None,
                       'education': line['education']})


def next_line(server, what):
    """The next line of the server that has `what`, or the end of the test where none comes in time."""
    def read():
        for line in server.stdout:
            print(line, end='')
            if what in line:
                return line
        return ''
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        try:
            line = reading.result(LIMIT_S)
        except concurrent.futures.TimeoutError:
            server.kill()  # which ends the reading
            line = ''
    require(line, f'it has not said "{what}"')
    return line


def check_predictions(url, folder):
    with open(folder / 'predictions.csv', encoding='utf-8', newline='') as table:
        lines = list(csv.DictReader(table))
    status, said = ask(url + '/predict', '\n'.join(map(row_of, lines)))
    require(status == 200 and len(said['predictions']) == len(lines) == 1000, f'{status}: {said}')
    furthest = max(abs(there - float(line['prediction'])) for there, line in zip(said['predictions'], lines))
    require(furthest < 1e-6, f'its predictions differ by {furthest} from those that the training has written')
    return lines


def ask_by_hand(url, head, body):
    """All that comes until the server ends the connection, of which the body is sent when the first answer has come."""
    host, port = url.removeprefix('http://').split(':')
    with socket.create_connection((host, int(port)), LIMIT_S) as connection:
        connection.sendall(head)
        said = connection.recv(100_000)
        try:
            connection.sendall(body)
            while more := connection.recv(100_000):
                said += more
        except ConnectionError:
            pass  # which it has ended already
    return said


def check_refusals(url, row):
    for body, status, what in [
        ('', 400, 'reading the request: there are no rows'),
        (row + '\n{"age":', 400, 'reading the request, line 2'),
        (row.replace('education', 'school'), 400, "names 'education', and the lines have"),
        (re.sub('"education": "[A-Za-z]*"', '"education": "Kindergarten"', row), 400, 'Kindergarten'),
        (row.replace('"age": ', '"age": "old", "x": '), 400, "'old' is a text"),
        ('x' * (2 << 20), 413, 'at most 1 MiB'),
    ]:
        got, said = ask(url + '/predict', body, '--header', 'Expect:')
        require(got == status and what in said.get('error', ''), f'{got} {said}, and not {status} with "{what}", to {body[:200]}')
    for header in ['Transfer-Encoding: chunked', 'Content-Encoding: gzip', 'Range: bytes=0-1']:  # of that the library sends a part
        said = curl('--header', header, '--write-out', '%{http_code}', '--json', row, url + '/predict')
        require(said.endswith('400') and ('Range' in header or 'is not taken' in said), f'{said}, to {header}')
    # The connection ends behind what is refused, so that nobody takes its body for another request.
    for head in [b'', b'Content-Encoding: gzip\r\nContent-Length: 34\r\n']:
        said = ask_by_hand(url, b'POST /predict HTTP/1.1\r\nHost: x\r\n' + head + b'\r\n', b'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
        require(said.count(b'HTTP/1.1 ') == 1 and (b' 411 ' in said or b' 400 ' in said) and b'"error"' in said, f'{said}, to {head}')
    for arguments in [(url + '/nothing',), (url + '/predict',)]:
        said = json.loads(curl(*arguments))
        require('there is GET /healthz' in said['error'], f'{arguments}: {said}')


def put_under_load(url, folder, row):
    """Prints the latencies of single rows, each of which is to be answered alike."""
    (folder / 'row.json').write_text(row)
    answers = folder / 'answers'
    shutil.rmtree(answers, ignore_errors=True)
    answers.mkdir()
    said = curl('--parallel', '--parallel-max', str(CONNECTIONS), '--json', f'@{folder}/row.json', '--output', f'{answers}/#1',
                '--write-out', '%{http_code} %{time_total}\n', f'{url}/predict?[1-{REQUESTS}]')
    results = [line.split() for line in said.splitlines()]
    require([status for status, _ in results] == ['200'] * REQUESTS, f'under load: {said[:2000]}')
    times = sorted(1000 * float(time) for _, time in results)
    print(f'{REQUESTS} requests by {CONNECTIONS} connections: ' +
          ', '.join(f'p{share} {times[REQUESTS * share // 100]:.2f} ms' for share in (50, 95, 99)))
    return {path.read_text() for path in answers.iterdir()}


def let_it_go_on(url, folder, row, *arguments):
    """The training goes on, or anew, and the server takes its checkpoints between two answers, which are returned, each once where
    others like it follow."""
    answers = []
    newest, before = '', json.loads(curl(url + '/healthz'))['checkpoint']
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        training = pool.submit(train, folder, *arguments)
        now, end = before, None
        while end is None or now == before or newest not in now:
            require(end is None or time.monotonic() < end, f'after {arguments} it serves from {now}, and {newest} is the newest')
            status, said = ask(url + '/predict', row)
            require(status == 200, f'while the training goes on: {status} {said}')
            if answers[-1:] != [said]:
                answers.append(said)
            if training.done():
                training.result()
                end = end or time.monotonic() + LIMIT_S
                newest = max(path.name for path in (run / 'checkpoints').iterdir())
                now = json.loads(curl(url + '/healthz'))['checkpoint']
    check_predictions(url, folder)
    return answers


def check_stop(server, url, errors, end):
    """It ends by this signal, also with a client that has been answered and sends half of a second request."""
    host, port = url.removeprefix('http://').split(':')
    with socket.create_connection((host, int(port)), LIMIT_S) as slow:
        slow.sendall(b'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
        require(b'200 OK' in slow.recv(100_000), 'it does not answer on a connection of its own')
        slow.sendall(b'POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{')
        server.send_signal(end)
        require(server.wait(LIMIT_S) == 0, f'{end}: {server.returncode}')
    errors.seek(0)
    said = errors.read()
    require('cut off' not in said, f'{end}: {said}')


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch).resolve()
    run = folder / f'adult_income_{backend}_5000'
    done = subprocess.run([serve, '--run', run, '--port', '0'], text=True, stderr=subprocess.PIPE, check=False, timeout=LIMIT_S)
    require(done.returncode == 1 and f"'{run}'" in done.stderr and 'there is no run.json' in done.stderr, f'without a run: {done}')
    train(folder)
    errors = open(folder / 'errors.txt', 'w+', encoding='utf-8')
    server = subprocess.Popen([serve, '--run', run, '--port', '0', '--threads', str(CONNECTIONS)], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=errors)
    try:
        url = re.search(r'http://127\.0\.0\.1:\d+', next_line(server, 'curl http'))[0]
        health = json.loads(curl(url + '/healthz'))
        require(health['status'] == 'ok' and health['checkpoint'].startswith(str(run)), f'{health}')
        line = check_predictions(url, folder)[0]
        row = row_of(line)
        check_refusals(url, row)
        answers = put_under_load(url, folder, row)
        require(len(answers) == 1, f'the same row has got several answers: {answers}')
        said = json.loads(answers.pop())['predictions']
        require(len(said) == 1 and abs(said[0] - float(line['prediction'])) < 1e-6, f'under load: {said} for {line}')
        done = subprocess.run([serve, '--run', run, '--port', url.rsplit(':', 1)[1]], text=True, stderr=subprocess.PIPE, check=False,
                              timeout=LIMIT_S)
        require(done.returncode == 1 and 'another program has the port' in done.stderr, f'at the same port: {done}')
        if backend == 'torch':
            answers = let_it_go_on(url, folder, row, '--epochs', '6')
            require(len(answers) <= 2, f'a model that has gone on by one checkpoint has answered {answers}')
        # Its one checkpoint has the number of the one before.
        let_it_go_on(url, folder, row, '--fresh')
        check_stop(server, url, errors, signal.SIGINT)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
        errors.seek(0)
        print(errors.read(), end='')
        errors.close()
    # Before it listens, too.
    done = subprocess.Popen([serve, '--run', run, '--port', '0'], stdout=subprocess.PIPE)
    done.stdout.read(1)
    done.send_signal(signal.SIGTERM)
    require(done.wait(LIMIT_S) == 0, f'SIGTERM at its beginning: {done.returncode}')
    done.stdout.close()
