"""SQLAlchemy Core over a journaled connection, by `creator=`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert as upsert

from tests.journal.postgres.world import World

depts = sa.Table(
    "depts",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text),
    sa.Column("budget", sa.Numeric),
    sa.Column("city", sa.String(5)),
)


@pytest.fixture
def engine(world: World) -> Iterator[sa.Engine]:
    made = sa.create_engine("postgresql+psycopg://", creator=world.connect)
    yield made
    made.dispose()


def test_core(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        insert = sa.insert(depts).values(id=1, name="a", budget=10).execution_options(preserve_rowcount=True)
        assert connection.execute(insert).rowcount == 1
        connection.execute(sa.insert(depts), [{"id": i, "name": f"n{i}"} for i in range(2, 6)])
    with engine.begin() as connection:
        update = sa.update(depts).where(depts.c.id == sa.bindparam("which")).values(name=depts.c.name + "!")
        assert connection.execute(update, {"which": 1}).rowcount == 1
        assert connection.execute(update, [{"which": 2}, {"which": 3}, {"which": 99}]).rowcount == 2
        assert connection.execute(sa.delete(depts).where(depts.c.id.in_([4, 5, 6]))).rowcount == 2
    with engine.connect() as connection:
        query = sa.select(depts.c.id, depts.c.name).order_by(depts.c.id).limit(2).offset(1)
        assert connection.execute(query).all() == [(2, "n2!"), (3, "n3!")]
        alias = depts.alias("other")
        joined = sa.select(sa.func.count()).select_from(depts.join(alias, depts.c.id <= alias.c.id))
        assert connection.scalar(joined) == 6
        like = sa.select(depts.c.id).where(depts.c.name.like("%!"))
        assert len(connection.execute(like).all()) == 3


def test_a_transaction_is_rolled_back(engine: sa.Engine) -> None:
    with pytest.raises(sa.exc.IntegrityError) as caught, engine.begin() as connection:
        connection.execute(sa.insert(depts).values(id=1))
        connection.execute(sa.insert(depts).values(id=1))
    assert type(caught.value.orig).__name__ == "DuplicateKeyError"
    with engine.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(depts)) == 0
        connection.rollback()
        with connection.begin():
            with pytest.raises(ZeroDivisionError), connection.begin_nested():
                connection.execute(sa.insert(depts).values(id=2))
                raise ZeroDivisionError
            connection.execute(sa.insert(depts).values(id=3))
        assert connection.scalars(sa.select(depts.c.id)).all() == [3]


@pytest.mark.parametrize("level", ["AUTOCOMMIT", "REPEATABLE READ", "SERIALIZABLE"])
def test_isolation_levels(engine: sa.Engine, level: str) -> None:
    with engine.execution_options(isolation_level=level).connect() as connection:
        connection.execute(sa.insert(depts).values(id=1))
        connection.commit()
    with engine.connect() as connection:
        assert connection.scalars(sa.select(depts.c.id)).all() == [1]


def test_an_upsert(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.insert(depts).values(id=1, name="a"))
        statement = upsert(depts).values([{"id": 1, "name": "b"}, {"id": 2, "name": "c"}])
        statement = statement.on_conflict_do_update(index_elements=["id"], set_={"name": statement.excluded.name})
        connection.execute(statement)
        assert connection.execute(sa.select(depts.c.id, depts.c.name).order_by(depts.c.id)).all() == [
            (1, "b"),
            (2, "c"),
        ]


def test_returning(engine: sa.Engine) -> None:
    """Rewritten, or refused by name."""
    with engine.connect() as connection:
        try:
            rows = connection.execute(sa.insert(depts).values(id=1, name="a").returning(depts.c.id, depts.c.name)).all()
            assert rows == [(1, "a")]
        except sa.exc.DBAPIError as error:
            assert "RETURNING" in str(error)
