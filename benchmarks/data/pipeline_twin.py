# SPDX-License-Identifier: Apache-2.0
"""What pipeline.cpp does, by Ray Data on all cores:  pipeline_twin.py MIXED ROWS SETTING

Ray's own times are apart: what it takes to start, and the pipeline."""
import json
import logging
import os
import sys
import time

os.environ.setdefault('RAY_USAGE_STATS_ENABLED', '0')
TOLD = os.fdopen(os.dup(1), 'w')
os.dup2(2, 1)  # Ray writes there, too

NUMBERS = ['customer', 'count', 'price', 'weight', 'rating']
TEXTS = ['paid', 'city']
# Blocks that a table is read as, where not Ray says how many, and how batches are cut. A window to shuffle in is what its documentation
# advises, since to shuffle all rows takes longer; without one they come as they lie.
SETTINGS = {'buffer': (None, {'batch_size': 256, 'local_shuffle_buffer_size': 4096}),
            'buffer_blocks': (len(os.sched_getaffinity(0)), {'batch_size': 256, 'local_shuffle_buffer_size': 4096}),
            'large_batches': (len(os.sched_getaffinity(0)), {'batch_size': 4096, 'local_shuffle_buffer_size': 8192}),
            'no_buffer': (len(os.sched_getaffinity(0)), {'batch_size': 256})}


def main():
    import numpy
    import ray
    from pyarrow import csv
    from ray.data import DataContext
    from ray.data.preprocessors import Chain, Concatenator, OneHotEncoder, SimpleImputer, StandardScaler

    path = os.path.abspath(sys.argv[1])
    begin = time.perf_counter()
    ray.init(address='local', num_cpus=len(os.sched_getaffinity(0)), logging_level=logging.ERROR, include_dashboard=False)
    started = time.perf_counter()
    DataContext.get_current().enable_progress_bars = False
    chain = Chain(SimpleImputer(['weight', 'rating'], strategy='mean'), SimpleImputer(['city'], strategy='most_frequent'),
                  StandardScaler(NUMBERS), OneHotEncoder(TEXTS),
                  Concatenator(columns=NUMBERS + TEXTS, output_column_name='features', dtype=numpy.float32, flatten=True))
    blocks, batches = SETTINGS[sys.argv[3]]
    table = ray.data.read_csv(path, override_num_blocks=blocks, convert_options=csv.ConvertOptions(strings_can_be_null=True)).materialize()
    rows, values, squares = 0, 0.0, 0.0
    for batch in chain.fit_transform(table).iter_batches(batch_format='numpy', **batches):
        features = batch['features'].astype(float)
        rows += len(features)
        values += features.sum()
        squares += (features * features).sum()
    ended = time.perf_counter()
    ray.shutdown()
    # As pipeline.cpp has it.
    if rows != int(sys.argv[2]) or abs(values / rows - 2) > 1e-3 or abs(squares / rows - 7) > 1e-3:
        sys.exit(f'{rows} rows gave the sum {values} and the squares {squares}')
    print(json.dumps({'version': ray.__version__, 'start_ms': 1e3 * (started - begin), 'wall_ms': 1e3 * (ended - started)}),
          file=TOLD, flush=True)


main()
