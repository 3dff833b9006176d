//! Retention: finished publications, and what is left of workers and channels, past their time.

use std::collections::BTreeSet;
use std::time::Duration;

use entity::{event, post, publication, worker};
use sea_orm::sea_query::{Alias, Expr, ExprTrait, LockBehavior, LockType, Query, SelectStatement};
use sea_orm::{
    ColumnTrait, Condition, DbErr, EntityTrait, FromQueryResult, IntoIdentity, Iterable, Order,
    PaginatorTrait, PrimaryKeyToColumn, QueryFilter, QueryOrder, QuerySelect,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::pages::in_pages;
use super::retired;
use crate::database::Database;
use crate::{clock, retry};

/// The statuses that retention may take, as the partial index `publication_finished` says it. What
/// failed or is unconfirmed waits for a person, however long.
const FINISHED: &str = "status IN ('published', 'missed', 'canceled')";
