//! Heartbeats: one statement renews all leases a worker knows it holds (BEAT-1).

use std::collections::HashSet;

use entity::publication::{Column, Entity};
use sea_orm::sea_query::{ExprTrait, Query, TableRef, Value, ValueTuple};
use sea_orm::{DbErr, EntityTrait, QueryFilter, QueryTrait};
use uuid::Uuid;

use super::Locks;
use super::fence::{column, fenced, new_value, only_in_id_order};
use super::lease::{Lease, LockRef};
use crate::clock::{self, BootInstant};
use crate::crash::crash_point;
use crate::retry;

/// How many leases one statement renews: far more than a worker holds, and within the parameters
/// that SQLite takes.
const ONE_STATEMENT: usize = 2_000;

/// What a heartbeat brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    /// How many leases run on.
    pub renewed: usize,
    /// The locks that are gone: recovered, taken over or run out.
    pub lost: Vec<LockRef>,
}

impl Locks {
    /// Renews `leases` in one statement, on the heartbeat's own lane, and moves their local
    /// deadlines. A lease that was not renewed is lost, and given up locally (BEAT-3).
    pub async fn renew(&self, leases: &[Lease]) -> Result<Renewal, DbErr> {
        let mut renewal = Renewal::default();
        for leases in leases.chunks(ONE_STATEMENT) {
            let (asked_at, renewed) = retry::on_contention(|| self.renew_all(leases)).await?;
            for lease in leases {
                if renewed.contains(&lease.lock().lock_id) {
                    lease.renewed(asked_at);
                    renewal.renewed += 1;
                } else {
                    lease.give_up();
                    renewal.lost.push(lease.lock());
                }
            }
        }
        Ok(renewal)
    }

    async fn renew_all(&self, leases: &[Lease]) -> Result<(BootInstant, HashSet<Uuid>), DbErr> {
        let backend = self.db.backend();
        let locks: Vec<LockRef> = leases.iter().map(Lease::lock).collect();
        let live = || clock::unexpired(backend, Column::LockedUntil);
        let lengths = leases
            .iter()
            .map(|lease| {
                let ms = i64::try_from(lease.length().as_millis()).unwrap_or(i64::MAX);
                let lock = lease.lock();
                let row: [Value; 4] = [
                    lock.publication_id.into(),
                    lock.lock_id.into(),
                    lock.version.into(),
                    ms.into(),
                ];
                ValueTuple::Many(row.into())
            })
            .collect();
        let mut update = Entity::update_many().col_expr(
            Column::LockedUntil,
            clock::db_now_plus_ms(backend, new_value(4)),
        );
        QueryTrait::query(&mut update)
            .from(TableRef::ValuesList(lengths, "new".into()))
            .returning(Query::returning().column(Column::ExecutionLockId));
        let update = only_in_id_order(update, backend, fenced(backend, &locks).add(live()))
            .filter(column(Column::Id).eq(new_value(1)))
            .filter(column(Column::ExecutionLockId).eq(new_value(2)))
            .filter(column(Column::ExecutionVersion).eq(new_value(3)))
            .filter(live());
        crash_point!("in_renew");
        let asked_at = BootInstant::now();
        let rows =
            sea_orm::ConnectionTrait::query_all(self.db.heartbeat(), update.as_query()).await?;
        let renewed = rows
            .iter()
            .map(|row| row.try_get("", "execution_lock_id"))
            .collect::<Result<_, _>>()?;
        Ok((asked_at, renewed))
    }
}
