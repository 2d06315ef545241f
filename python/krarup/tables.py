"""One relation in the form that is asked for: DuckDB, Polars, Arrow or pandas.

Each table is defined once. What is small (cells, trials) is made as an Arrow table; rows of requests are a DuckDB query over Parquet files, which
reads nothing before it is asked, and then only the columns and rows that are needed.
"""

from krarup.program import KrarupError

ENGINES = ("duckdb", "polars", "arrow", "pandas")


def needed(name):
    """A library that only some uses need."""
    try:
        return __import__(name)
    except ImportError as error:
        extra = "tables" if name in ("duckdb", "pyarrow") else "notebook"
        raise KrarupError(f"{name} is not installed", f"pip install 'krarup[{extra}]'") from error


def checked(engine):
    """The engine, if it is one."""
    if engine not in ENGINES:
        raise KrarupError(f"there is no engine {engine!r}", f"one of {', '.join(ENGINES)}")
    return engine


def of_arrow(table, engine):
    """An Arrow table in another form: Polars lazy, DuckDB as a relation of its default connection."""
    match checked(engine):
        case "arrow":
            return table
        case "pandas":
            needed("pandas")
            return table.to_pandas()
        case "polars":
            return needed("polars").from_arrow(table).lazy()
        case _:
            return needed("duckdb").from_arrow(table)


def of_duckdb(relation, engine):
    """A DuckDB relation in another form: Polars stays lazy, Arrow and pandas are read at once."""
    match checked(engine):
        case "arrow":
            needed("pyarrow")
            return relation.to_arrow_table()
        case "pandas":
            needed("pandas")
            return relation.df()
        case "polars":
            needed("polars"), needed("pyarrow")
            return relation.pl(lazy=True)
        case _:
            return relation


def of_csv(text, engine):
    """A table with commas whose columns are typed by what is in them; an empty field is a null."""
    pyarrow = needed("pyarrow")
    from pyarrow import csv

    empty = csv.ConvertOptions(null_values=[""], strings_can_be_null=True)
    return of_arrow(csv.read_csv(pyarrow.BufferReader(text.encode()), convert_options=empty), engine)


def of_records(records, engine):
    """A table of dictionaries; where a column has numbers with and without a fraction it is one of fractions."""
    pyarrow = needed("pyarrow")
    names = list(dict.fromkeys(name for record in records for name in record))
    columns = {}
    for name in names:
        values = [record.get(name) for record in records]
        kinds = {type(value) for value in values if value is not None}
        if kinds == {int, float}:
            values = [None if value is None else float(value) for value in values]
        elif len(kinds) > 1:
            values = [None if value is None else str(value) for value in values]
        columns[name] = pyarrow.array(values)
    return of_arrow(pyarrow.table(columns), engine)
