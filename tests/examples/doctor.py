# SPDX-License-Identifier: Apache-2.0
"""What the doctor finds, and what it advises where something is wrong:  doctor.py CASE DOCTOR [MPIRUN ARGUMENT...]"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from ended import ended_with_us

ended_with_us()

SKIPPED = 77
case, doctor, *mpirun = sys.argv[1:]
doctor = os.path.abspath(doctor)


class Answer:
    """What the doctor says in a folder of its own, which it leaves as it was."""

    def __init__(self, *arguments, start=(), **environment):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, 'file').touch()
            done = subprocess.run([*start, doctor, '--checkpoint-size', '1', *arguments], cwd=folder, text=True,
                                  env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100, check=False)
            self.left = os.listdir(folder)
        self.status, self.text = done.returncode, done.stdout
        self.expect('nothing is left behind', self.left == ['file'])

    def expect(self, what, holds):
        if not holds:
            sys.exit(f'{case}: not so: {what}\nstatus {self.status}, left {self.left}\n{self.text}')

    def expect_says(self, *parts):
        for part in parts:
            self.expect(f'it says "{part}"', part in self.text)


def threads():
    answer = Answer('--workers', '2')
    answer.expect('it is no failure', answer.status == 0)
    answer.expect_says('with threads as workers', 'Processor', 'Memory', '2 on ', 'LibTorch', 'MPI', 'Network', 'GPU',
                       ' free\n', 'one of 1 MiB is committed after', 'all_reduce of 8 B takes', 'until all workers run')


def too_many():
    workers = (os.cpu_count() or 1) + 1
    Answer('--workers', str(workers)).expect_says(f'{workers} workers share the ', 'start ')


def in_memory():
    folder = tempfile.mkdtemp(dir='/dev/shm')
    try:
        answer = Answer('--workers', '1', '--storage', f'{folder}/runs')
        answer.expect_says('tmpfs', 'checkpoints go to memory (tmpfs)')
        answer.expect('nothing is left behind', not os.listdir(folder))
    finally:
        os.rmdir(folder)


def storage_of_others():
    """A folder that was there before, and a link to one, stay."""
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        link = folder / 'link'
        (folder / 'empty').mkdir()
        link.symlink_to('empty')
        for storage in ['empty', 'link']:
            answer = Answer('--workers', '1', '--storage', str(folder / storage))
            answer.expect('what was there stays', link.is_symlink() and (folder / 'empty').is_dir())
    finally:
        shutil.rmtree(folder)


def unusable_storage():
    answer = Answer('--workers', '1', '--storage', 'file')
    answer.expect_says('This job cannot train:', 'file')
    answer.expect('the exit status is 1', answer.status == 1)


def slow_kernels():
    """Those that OpenBLAS takes for a processor that it does not know."""
    answer = Answer('--workers', '1', OPENBLAS_CORETYPE='Prescott')
    if 'vector instructions: AVX' not in answer.text or 'OpenBLAS' not in answer.text:
        print('needs AVX2 and a LibTorch with OpenBLAS')
        sys.exit(SKIPPED)
    answer.expect_says('OpenBLAS with its Prescott kernels', 'export OPENBLAS_CORETYPE=')


def driver():
    """A stand-in for NVIDIA's driver, RAYTRAIN_TEST_DRIVER, with two GPUs."""
    folder = os.path.dirname(os.environ['RAYTRAIN_TEST_DRIVER'])
    answer = Answer('--workers', '1', LD_LIBRARY_PATH=folder, RAYTRAIN_TEST_GPUS='2', RAYTRAIN_TEST_DRIVER_CUDA='9000')
    answer.expect('it is no failure', answer.status == 0)
    answer.expect_says('2, the driver supports CUDA 9.0', '1: Fake GPU, 8.0 GiB')
    if 'not built with it' not in answer.text:
        answer.expect_says('LibTorch trains on no GPU here: ')
        expected = 'is built without CUDA' if 'without CUDA' in answer.text else 'driver supports CUDA up to 9.0'
        answer.expect_says(expected)
    hidden = Answer('--workers', '1', LD_LIBRARY_PATH=folder, RAYTRAIN_TEST_GPUS='2', CUDA_VISIBLE_DEVICES='')
    hidden.expect_says('0, the driver supports CUDA 11.4')


def ranks():
    answer = Answer(start=[*mpirun, '-n', '2'])
    answer.expect('it is no failure', answer.status == 0)
    answer.expect_says('2 ranks of ', 'MPI_THREAD_MULTIPLE', 'travel through memory that all ranks share',
                       'rank 0 listens on 127.0.0.1 and a Unix socket', '2 on ')
    answer.expect('one rank speaks', answer.text.count('\nProcessor ') == 1)
    answer.expect('what all say is said once', '[rank' not in answer.text)


def bound():
    """One core where there are more."""
    if os.cpu_count() == 1:
        print('needs 2 cores')
        sys.exit(SKIPPED)
    Answer('--workers', '1', start=['taskset', '-c', '0']).expect_says('this process may use 1 of the ')


def bound_rank():
    if os.cpu_count() == 1:
        print('needs 2 cores')
        sys.exit(SKIPPED)
    Answer(start=[*mpirun, '-n', '1', 'taskset', '-c', '0']).expect_says(' may use 1 of the ', '--map-by slot:PE=')


def differs():
    """What one rank alone has to say is said to be its own."""
    # By a shell on each rank, since Open MPI 5.0.7's prterun crashes where ranks start by different words.
    plant = '[ "${PMIX_RANK:-${PMI_RANK:-$OMPI_COMM_WORLD_RANK}}" = 0 ] || export NCCL_PLANTED=1; exec "$0" "$@"'
    answer = Answer(start=[*mpirun, '-n', '2', 'sh', '-c', plant])
    answer.expect_says('NCCL_PLANTED=1  [rank 1 on ')


CASES = {function.__name__: function for function in (
    threads, too_many, in_memory, storage_of_others, unusable_storage, slow_kernels, bound, driver, ranks, bound_rank, differs)}

if __name__ == '__main__':
    CASES[case]()
