# Parquet files: their first rows.


def parquet(file):
    try:
        import pyarrow.parquet
    except ImportError:
        raise Problem('missing_package', 'pyarrow') from None
    try:
        table = pyarrow.parquet.ParquetFile(file)
        names = table.schema_arrow.names
        batch = next(table.iter_batches(batch_size=MAX_ROWS, columns=names[:MAX_COLUMNS]), None)
    except (pyarrow.ArrowException, OSError) as error:
        raise Problem('damaged', shortened(str(error), 300)) from None
    columns = [] if batch is None else [column.to_pylist() for column in batch.columns]
    rows = []
    for values in zip(*columns):
        row = [shortened('' if value is None else str(value), MAX_CELL) for value in values]
        if budget.takes(row):
            rows.append(row)
    shown = [shortened(name, MAX_CELL) for name in names[:MAX_COLUMNS]]
    return {'kind': 'table', 'columns': shown, 'rows': rows, 'all_rows': table.metadata.num_rows, 'all_columns': len(names)}


READERS = {'parquet': parquet}
