//! The column types of the schema in the dialect of the engine at hand.
//!
//! SQLite stores any value in any column unless told otherwise, and a row that cannot be decoded
//! would stop whoever reads it. Tables are therefore `STRICT` there, and what SQLite has no type
//! for gets a CHECK that refuses every other shape.
//!
//! Applied migrations are built from these, so what they produce must never change.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

/// Makes tables and columns for one engine.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    sqlite: bool,
}

impl Columns {
    pub(crate) fn of(manager: &SchemaManager<'_>) -> Self {
        let sqlite = manager.get_database_backend() == DbBackend::Sqlite;
        Self { sqlite }
    }

    /// An empty table; `STRICT` on SQLite, so that a column takes only values of its type.
    pub(crate) fn table(self, name: &'static str) -> TableCreateStatement {
        let mut table = Table::create();
        table.table(name);
        if self.sqlite {
            table.extra("STRICT");
        }
        table.take()
    }

    /// A UUID; on SQLite the 16 bytes that SeaORM writes.
    pub(crate) fn uuid(self, name: &'static str) -> ColumnDef {
        if self.sqlite {
            checked(name, "blob", format!("length({name}) = 16"))
        } else {
            plain(name, "uuid")
        }
    }

    /// A point in time, no later than the year 9999: what every reader can decode.
    ///
    /// On SQLite it is text, `YYYY-MM-DDTHH:MM:SS`, an optional fraction of one to nine digits,
    /// then `+00:00`. That shape sorts as text because `+` comes before `.` and `.` before digits.
    /// Adding no days makes SQLite work the date out, so that it comes back different if it does
    /// not exist, like February 30. Lengths are counted in bytes: a NUL cannot hide a tail.
    pub(crate) fn instant(self, name: &'static str) -> ColumnDef {
        if self.sqlite {
            let bytes = format!("length(CAST({name} AS blob))");
            let second = format!("substr({name}, 1, 19)");
            checked(
                name,
                "text",
                format!(
                    "{name} IS NULL OR (\
                     strftime('%Y-%m-%dT%H:%M:%S', {second}, '+0 days') IS {second} \
                     AND substr({name}, -6) = '+00:00' \
                     AND ({bytes} = 25 OR ({bytes} BETWEEN 27 AND 35 \
                     AND substr({name}, 20, 1) = '.' \
                     AND substr({name}, 21, {bytes} - 26) NOT GLOB '*[^0-9]*')))"
                ),
            )
        } else {
            checked(
                name,
                "timestamptz",
                format!(
                    "{name} >= '0001-01-01 00:00:00+00' AND {name} < '10000-01-01 00:00:00+00'"
                ),
            )
        }
    }

    /// An instant that the database fills in: the start of the statement.
    pub(crate) fn instant_now(self, name: &'static str) -> ColumnDef {
        let now = if self.sqlite {
            "strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')"
        } else {
            "statement_timestamp()"
        };
        self.instant(name)
            .not_null()
            .default(Expr::cust(now))
            .take()
    }

    /// A JSON value; its kind is `array`, `object` or, where any will do, none.
    pub(crate) fn json(self, name: &'static str, kind: Option<&str>) -> ColumnDef {
        let (ty, type_of) = if self.sqlite {
            ("text", "json_type")
        } else {
            ("jsonb", "jsonb_typeof")
        };
        let valid = self.sqlite.then(|| format!("json_valid({name})"));
        let kind = kind.map(|kind| format!("{type_of}({name}) = '{kind}'"));
        match [valid, kind]
            .into_iter()
            .flatten()
            .reduce(|a, b| format!("{a} AND {b}"))
        {
            Some(check) => checked(name, ty, check),
            None => plain(name, ty),
        }
    }

    pub(crate) fn text(self, name: &'static str) -> ColumnDef {
        plain(name, "text")
    }

    /// A text that is one of `words`.
    pub(crate) fn word(self, name: &'static str, words: &[&str]) -> ColumnDef {
        checked(
            name,
            "text",
            format!("{name} IN ('{}')", words.join("', '")),
        )
    }

    pub(crate) fn bytes(self, name: &'static str) -> ColumnDef {
        plain(name, if self.sqlite { "blob" } else { "bytea" })
    }

    pub(crate) fn small_integer(self, name: &'static str) -> ColumnDef {
        self.ranged(name, "smallint", i16::MIN.into(), i16::MAX.into())
    }

    pub(crate) fn integer(self, name: &'static str) -> ColumnDef {
        self.ranged(name, "integer", i32::MIN.into(), i32::MAX.into())
    }

    pub(crate) fn big_integer(self, name: &'static str) -> ColumnDef {
        plain(name, if self.sqlite { "integer" } else { "bigint" })
    }

    /// SQLite has one integer type of 64 bits: the narrower ones need their range.
    fn ranged(self, name: &'static str, ty: &'static str, min: i64, max: i64) -> ColumnDef {
        if self.sqlite {
            checked(name, "integer", format!("{name} BETWEEN {min} AND {max}"))
        } else {
            plain(name, ty)
        }
    }
}

fn plain(name: &'static str, ty: &'static str) -> ColumnDef {
    ColumnDef::new(name).custom(ty).take()
}

fn checked(name: &'static str, ty: &'static str, check: String) -> ColumnDef {
    plain(name, ty).check(Expr::cust(check)).take()
}
