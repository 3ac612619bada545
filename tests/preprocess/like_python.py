# SPDX-License-Identifier: Apache-2.0
"""Preprocessors, groups and CSV files of random tables against scikit-learn and pandas:

  like_python.py PROGRAM [SEED]
"""
import csv
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

import numpy
import pandas
import sklearn
from sklearn import preprocessing
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer

# Relative, and beside 0 absolute, to numbers of what is found.
TOLERANCES = {'float64': 1e-11, 'float32': 1e-6, 'int64': 0}
TYPES = {'ordinal': 'int64', 'label': 'int64'}
# A power is found where a likelihood has its maximum, which both sides see to about 1e-7; values lie in powers of it.
POWER_TOLERANCE = 1e-4
# Of values by a power that is given.
GIVEN_POWER_TOLERANCE = 1e-6
# Cases of scikit-learn's own powers: method and column.
POWERS = [('yeo_johnson', 'b'), ('yeo_johnson', 'p'), ('box_cox', 'p')]
# How pandas may write a table.
STYLES = [{}, {'lineterminator': '\r\n', 'quoting': csv.QUOTE_ALL}, {'quoting': csv.QUOTE_NONNUMERIC}]
LETTERS = 'ab Z,"\n\t;\'ö漢'


def random_text(draw):
    return draw.choice('xyzÄ') + ''.join(draw.choices(LETTERS, k=draw.randrange(6)))


def random_table(rows, draw):
    """Numbers with gaps (a, b, and few different ones: g) and without (p above 0, n whole), texts with gaps (city) and without (kind),
    values that are joined (tags), and words."""
    numbers = numpy.random.default_rng(draw.randrange(2**32))
    cities, kinds, tags, words = ([random_text(draw) for _ in range(count)] for count in (4, 3, 5, 20))
    tags, words = ([text.replace(' ', '_').split()[0] for text in texts] for texts in (tags, words))

    def with_gaps(values):
        return [None if draw.random() < 0.1 and at > 1 else value for at, value in enumerate(values)]

    return pandas.DataFrame({
        'a': with_gaps(numbers.normal(1e3, 5, rows)),
        'b': with_gaps(numbers.standard_t(2, rows)),
        'p': numpy.exp(numbers.normal(0, 1, rows)),
        'g': with_gaps(numbers.integers(-2, 3, rows) / 4),
        'n': numbers.integers(1, 9, rows),
        'city': with_gaps(draw.choices(cities, k=rows)),
        'kind': draw.choices(kinds, k=rows),
        'tags': ['|'.join(sorted(set(draw.choices(tags, k=draw.randrange(1, 4))))) for _ in range(rows)],
        'words': [' '.join(draw.choices(words, k=draw.randrange(1, 9))) for _ in range(rows)],
    })


def dense(values):
    return values.toarray() if hasattr(values, 'toarray') else numpy.asarray(values)


def power_transformer(method):
    return preprocessing.PowerTransformer(method=method.replace('_', '-'))


def write_powers(table, path):
    powers = [power_transformer(method).fit(table[[column]].to_numpy(dtype=float)).lambdas_[0] for method, column in POWERS]
    lines = [f'{method},{column},{float(power)!r}' for (method, column), power in zip(POWERS, powers)]
    path.write_text('\n'.join(['method,column,power', *lines, '']))


def expected_of(table):
    """By the name of a case and the column: what scikit-learn makes of it, and what comes back of that, or None."""
    def learnt(transformer, columns, has_way_back=True):
        given = table[columns].to_numpy(dtype=float)
        made = dense(transformer.fit_transform(given))
        back = transformer.inverse_transform(made) if has_way_back else numpy.full(given.shape, None)
        return {column: (made[:, at], back[:, at] if has_way_back else None) for at, column in enumerate(columns)}

    def of_texts(transformer, column, has_way_back=True):
        given = table[[column]].to_numpy(dtype=object)
        made = dense(transformer.fit_transform(given))
        return {column: (made, transformer.inverse_transform(made)[:, 0] if has_way_back else None)}

    numbers = ['a', 'b', 'p']
    cases = {
        'standard': learnt(preprocessing.StandardScaler(), numbers),
        'min_max': learnt(preprocessing.MinMaxScaler(feature_range=(-1, 2)), numbers),
        'max_abs': learnt(preprocessing.MaxAbsScaler(), numbers),
        'robust': learnt(preprocessing.RobustScaler(quantile_range=(10, 80)), numbers),
        'yeo_johnson': learnt(preprocessing.PowerTransformer(), ['b', 'p']),
        'box_cox': learnt(preprocessing.PowerTransformer(method='box-cox', standardize=False), ['p']),
        'mean': learnt(SimpleImputer(strategy='mean'), ['a', 'b'], False),
        'median': learnt(SimpleImputer(strategy='median'), ['a', 'b'], False),
        'most_frequent': learnt(SimpleImputer(strategy='most_frequent'), ['g'], False),
        'uniform_bins': learnt(preprocessing.KBinsDiscretizer(4, strategy='uniform', encode='ordinal', subsample=None), ['n', 'p']),
        'quantile_bins': learnt(preprocessing.KBinsDiscretizer(4, quantile_method='linear', encode='ordinal', subsample=None), ['p']),
        'ordinal': {**of_texts(preprocessing.OrdinalEncoder(), 'kind'), **of_texts(preprocessing.OrdinalEncoder(), 'n')},
        'one_hot': {**of_texts(preprocessing.OneHotEncoder(), 'kind'), **of_texts(preprocessing.OneHotEncoder(), 'n')},
    }
    for method, column in POWERS:
        cases[f'{method}_at_{column}'] = learnt(power_transformer(method), [column])
    for norm in ('l1', 'l2', 'max'):
        cases[f'normalizer_{norm}'] = learnt(preprocessing.Normalizer(norm), ['n', 'p'], False)
    label = preprocessing.LabelEncoder().fit(table['kind'])
    numbers_of_kinds = label.transform(table['kind'])
    cases['label'] = {'kind': (numbers_of_kinds, label.inverse_transform(numbers_of_kinds))}
    binarizer = preprocessing.MultiLabelBinarizer()
    places_of_tags = binarizer.fit_transform(table['tags'].str.split('|'))
    cases['multi_hot'] = {'tags': (places_of_tags, ['|'.join(tags) for tags in binarizer.inverse_transform(places_of_tags)])}
    vectorizer = CountVectorizer(lowercase=False, token_pattern=r'[^ \t\n\v\f\r]+')
    cases['words'] = {'words': (dense(vectorizer.fit_transform(table['words'])), None)}
    return cases


def check_same(found, expected, what, tolerance=0.0):
    expected = numpy.asarray(expected, dtype=float)
    if expected.ndim == 2 and expected.shape[1] == 1:
        expected = expected[:, 0]
    if found.shape != expected.shape:
        sys.exit(f'{what}: it has the shape {found.shape}, and not {expected.shape}')
    tolerance = max(tolerance, TOLERANCES[str(found.dtype)])
    if not numpy.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True):
        differs = ~numpy.isclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
        sys.exit(f'{what}: {differs.sum()} of {found.size} values differ, as {found[differs][:3]} from {expected[differs][:3]}')


def check_preprocessors(table, folder):
    count = 0
    for case, columns in expected_of(table).items():
        tolerance = POWER_TOLERANCE if case in ('yeo_johnson', 'box_cox') else GIVEN_POWER_TOLERANCE if '_at_' in case else 0
        for column, (made, back) in columns.items():
            found = numpy.load(folder / f'{case}.{column}.npy')
            if str(found.dtype) != TYPES.get(case, found.dtype):
                sys.exit(f'{case} of {column}: it is of {found.dtype}')
            check_same(found, made, f'{case} of {column}', tolerance)
            count += 1
            if back is None:
                continue
            if table[column].dtype == object or str(table[column].dtype) == 'str':
                found = read_again(folder / f'{case}.back.csv')[column]
                if list(found) != list(back):
                    sys.exit(f'{case} of {column}: comes back as {list(found)[:5]}')
            else:
                check_same(numpy.load(folder / f'{case}.{column}.back.npy'), back, f'{case} of {column}, which comes back', tolerance)
    return count


def read_again(path):
    """By the types that the columns had."""
    texts = {name: str for name in ('city', 'kind', 'tags', 'words', 'min(kind)', 'max(kind)')}
    return pandas.read_csv(path, dtype=texts)


def check_groups(table, folder, keys):
    groups = table.groupby(keys, dropna=False)
    expected = pandas.DataFrame({
        'count()': groups.size(), 'sum(n)': groups['n'].sum(), 'mean(a)': groups['a'].mean(), 'min(b)': groups['b'].min(),
        'max(b)': groups['b'].max(), 'std(a)': groups['a'].std(), 'quantile(a)': groups['a'].quantile(0.3), 'unique(n)': groups['n'].nunique(),
        'unique(city)': groups['city'].nunique(), 'abs_max(b)': groups['b'].agg(lambda values: values.abs().max()),
        'min(kind)': groups['kind'].min(), 'max(kind)': groups['kind'].max()}).reset_index()
    found = read_again(folder / f'groups of {" and ".join(keys)}.csv')
    pandas.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-9)


def check_table(rows, style, draw, program):
    table = random_table(rows, draw)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        table.to_csv(folder / 'rows.csv', index=False, **style)
        write_powers(table, folder / 'powers.csv')
        done = subprocess.run([program, folder], check=False)
        if done.returncode != 0:
            sys.exit(done.returncode)
        pandas.testing.assert_frame_equal(read_again(folder / 'again.csv'), table, check_dtype=False, check_exact=True)
        of_lines = pandas.read_json(folder / 'again.jsonl', lines=True, dtype=False, precise_float=True)
        pandas.testing.assert_frame_equal(of_lines, table, check_dtype=False, check_exact=True)
        for name, columns in ('sorted', ['a']), ('sorted by three', ['city', 'g', 'a']):
            in_order = table.sort_values(columns, kind='stable', na_position='last', ignore_index=True)
            pandas.testing.assert_frame_equal(read_again(folder / f'{name}.csv'), in_order, check_dtype=False, check_exact=True)
        for keys in ['city'], ['g'], ['city', 'g']:
            check_groups(table, folder, keys)
        return check_preprocessors(table, folder)


def main():
    program = sys.argv[1]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no folder stays
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32)
    print(f'scikit-learn {sklearn.__version__}, pandas {pandas.__version__}, NumPy {numpy.__version__}, seed {seed}', flush=True)
    draw = random.Random(seed)
    count = sum(check_table(rows, style, draw, program) for rows in (30, 300, 3_000) for style in STYLES)
    print(f'{count} columns are as scikit-learn makes them')


if __name__ == '__main__':
    main()
